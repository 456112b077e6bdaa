import assert from "node:assert/strict";
import { test } from "node:test";

import { DAY_MS, MINUTE_MS } from "../../src/domain/clock/duration.ts";
import { decideAttention, type AttentionFacts } from "../../src/domain/stats/attention.ts";
import {
  CONDITION_NAMES,
  decideConditions,
  type ConditionFacts,
} from "../../src/domain/stats/condition.ts";
import {
  databaseWarnings,
  decideServiceStatus,
  type DatabaseHealth,
  type HeldSnapshot,
  type ServiceFacts,
} from "../../src/domain/stats/health.ts";

const SOUND: ServiceFacts = {
  isServing: true,
  hasRoom: true,
  isWorking: true,
  queueAgeMs: 0,
  runs: { all: 0, failed: 0 },
  receivers: { all: 0, failed: 0 },
};

/** The status of api, runners, webhooks and the service. */
function wordsOf(facts: Partial<ServiceFacts>): string {
  const { status, components } = decideServiceStatus({ ...SOUND, ...facts });
  return [components.api, components.runners, components.webhooks, status].join(" ");
}

const ALL_FINE = "operational operational operational operational";

test("a new service is operational", () => {
  assert.equal(wordsOf({}), ALL_FINE);
});

test("an API that does not serve is down, and without disk space it is degraded", () => {
  assert.equal(wordsOf({ isServing: false }), "down operational operational down");
  assert.equal(wordsOf({ hasRoom: false }), "degraded operational operational degraded");
  assert.equal(wordsOf({ isServing: false, hasRoom: false }), "down operational operational down");
});

test("runners and webhooks are down when the engine has stopped", () => {
  assert.equal(wordsOf({ isWorking: false }), "operational down down down");
});

test("runners are degraded when a task waits for more than a quarter of an hour", () => {
  assert.equal(wordsOf({ queueAgeMs: 15 * MINUTE_MS }), ALL_FINE);
  const late = "operational degraded operational degraded";
  assert.equal(wordsOf({ queueAgeMs: 15 * MINUTE_MS + 1 }), late);
  assert.equal(wordsOf({ queueAgeMs: 365 * 24 * 60 * MINUTE_MS }), late);
});

const RUNS: readonly (readonly [all: number, failed: number, word: string])[] = [
  [0, 0, "operational"],
  [19, 19, "operational"],
  [20, 0, "operational"],
  [20, 9, "operational"],
  [20, 10, "degraded"],
  [21, 10, "operational"],
  [20, 19, "degraded"],
  [20, 20, "down"],
  [1_000_000, 999_999, "degraded"],
  [1_000_000, 1_000_000, "down"],
];

const RECEIVERS: readonly (readonly [all: number, failed: number, word: string])[] = [
  [1, 1, "operational"],
  [4, 4, "operational"],
  [5, 2, "operational"],
  [5, 3, "degraded"],
  [6, 3, "degraded"],
  [5, 4, "degraded"],
  [5, 5, "down"],
  [100, 1, "operational"],
];

test("runners and webhooks are degraded or down by their share of failures", () => {
  for (const [part, name, rows] of [
    ["runners", "runs", RUNS],
    ["webhooks", "receivers", RECEIVERS],
  ] as const) {
    for (const [all, failed, word] of rows) {
      const facts = { ...SOUND, [name]: { all, failed } };
      const { components, status } = decideServiceStatus(facts);
      assert.deepEqual([components[part], status], [word, word], `${failed} of ${all} ${name}`);
    }
  }
});

test("the service has the worst status of its parts", () => {
  const runs = { all: 20, failed: 20 };
  const receivers = { all: 6, failed: 3 };
  assert.equal(wordsOf({ runs, receivers }), "operational down degraded down");
  assert.equal(wordsOf({ runs, queueAgeMs: 60 * MINUTE_MS }), "operational down operational down");
  assert.equal(wordsOf({ receivers, hasRoom: false }), "degraded operational degraded degraded");
});

test("the status contains no counts", () => {
  const facts = { runs: { all: 123, failed: 77 }, receivers: { all: 45, failed: 31 } };
  const text = JSON.stringify(decideServiceStatus({ ...SOUND, ...facts, queueAgeMs: 987_654_321 }));
  assert.doesNotMatch(text, /\d/);
});

const SOUND_DATABASE: DatabaseHealth = {
  version: "15.14",
  bytes: 10_000_000,
  connections: { used: 9, max: 100 },
  oldestSnapshot: null,
  standbys: [],
  commitsWait: false,
  deadRows: { queue: 0, outbox: 0 },
};

const textsOf = (health: Partial<DatabaseHealth>): string[] =>
  databaseWarnings({ ...SOUND_DATABASE, ...health }).map(({ text }) => text);

test("a snapshot older than a minute is a warning without its holder", () => {
  const snapshot = (ageMs: number | null): HeldSnapshot => ({
    ...{ holder: "slot", name: "copy", pid: null, transactions: 5_000_000 },
    ageMs,
  });
  for (const ageMs of [null, 0, 60_000]) {
    assert.deepEqual(textsOf({ oldestSnapshot: snapshot(ageMs) }), []);
  }

  const [warning, ...others] = databaseWarnings({
    ...SOUND_DATABASE,
    oldestSnapshot: snapshot(60_001),
  });

  assert.deepEqual(others, []);
  assert.match(warning?.text ?? "", /minute/);
  // The text is public in /readyz.
  assert.doesNotMatch(warning?.text ?? "", /copy|\d/);
  assert.deepEqual(warning?.facts, snapshot(60_001));
});

test("a standby is a warning if commits do not wait for it", () => {
  const standby = { name: "east", state: null, syncState: null, lagBytes: null, lagMs: null };
  assert.deepEqual(textsOf({}), []);
  assert.deepEqual(textsOf({ standbys: [standby], commitsWait: true }), []);
  const [text, ...others] = textsOf({ standbys: [standby] });
  assert.match(text ?? "", /failover/);
  assert.deepEqual(others, []);
});

test("commits that wait for a missing standby are a warning, unless its state is hidden", () => {
  const standby = { name: "east", state: "streaming", lagBytes: null, lagMs: null };
  const of = (...states: readonly (string | null)[]): string[] => {
    const standbys = states.map((syncState) => ({ ...standby, syncState }));
    return textsOf({ commitsWait: true, standbys });
  };
  for (const states of [[], ["async"], ["potential", "async"]]) {
    const [text, ...others] = of(...states);
    assert.match(text ?? "", /^no write is acknowledged/);
    assert.deepEqual(others, []);
  }
  for (const states of [["sync"], ["quorum", "async"], [null]]) assert.deepEqual(of(...states), []);
});

const NOW = Date.parse("2026-01-31T09:00:00.000Z");

const NO_CONDITION: ConditionFacts = {
  ...{ now: NOW, fault: null, shortage: null, disk: null, backupFailure: null, certificate: null },
  ...{ typesWithoutWorker: [], failingHosts: [], limitedAccounts: [], untrustedProxy: null },
  ...{ isAlone: true, retention: null, databaseWarnings: [], lostNodes: [] },
};

function found(facts: Partial<ConditionFacts>): string[] {
  return decideConditions({ ...NO_CONDITION, ...facts }).map(({ name }) => name);
}

test("a healthy service has no conditions", () => {
  const disk = { freeBytes: 400, freeBytesMin: 100 };
  const certificate = { from: NOW - 60 * DAY_MS, to: NOW + 30 * DAY_MS };
  assert.deepEqual(found({ disk, certificate }), []);
});

const PRINT = { type: "print", waiting: 2, isMoreWaiting: false };

test("each fault is one condition with a remedy", () => {
  const all = decideConditions({
    ...{ now: NOW, fault: "the engine stopped after a fault", shortage: "the disk is full" },
    disk: { freeBytes: 399, freeBytesMin: 100 },
    backupFailure: { at: NOW, reason: "the folder is a file" },
    certificate: { from: NOW - 90 * DAY_MS, to: NOW - 1 },
    typesWithoutWorker: [{ ...PRINT, oldestMs: 60_000 }],
    failingHosts: [{ host: "a.example", failures: 3, since: NOW }],
    ...{ isAlone: true, limitedAccounts: ["ada"], untrustedProxy: "10.0.0.1" },
    retention: { text: "it is short", remedy: "make it longer" },
    databaseWarnings: ["one", "two"],
    lostNodes: [{ name: "east-1", lastSeenAt: NOW }],
  });

  assert.deepEqual(
    all.map(({ name }) => name),
    CONDITION_NAMES,
  );
  for (const { text, remedy } of all) {
    // A full stop is added by the screens.
    assert.doesNotMatch(`${text}\n${remedy}`, /\.$/m);
    assert(remedy !== "");
  }
});

test("a node's condition counts its own attempts", () => {
  const failingHosts = [{ host: "a.example", failures: 3, since: NOW }];
  const [condition] = decideConditions({ ...NO_CONDITION, failingHosts, isAlone: false });
  assert.match(condition?.text ?? "", /^3 .* a\.example from this node/);
});

test("a certificate is expiring two weeks before its end, or in the last quarter of a shorter life", () => {
  const lives = (days: number, leftMs: number): string[] =>
    found({ certificate: { from: NOW + leftMs - days * DAY_MS, to: NOW + leftMs } });
  assert.deepEqual(lives(90, 14 * DAY_MS + 1), []);
  assert.deepEqual(lives(90, 14 * DAY_MS), ["certificate.expiring"]);
  assert.deepEqual(lives(8, 2 * DAY_MS + 1), []);
  assert.deepEqual(lives(8, 2 * DAY_MS), ["certificate.expiring"]);
});

test("a worker is missing once a task has waited for a minute", () => {
  const waits = (oldestMs: number): string[] =>
    found({ typesWithoutWorker: [{ ...PRINT, oldestMs }] });
  assert.deepEqual(waits(59_999), []);
  assert.deepEqual(waits(60_000), ["worker.missing"]);
});

test("a limited count of waiting tasks has a plus", () => {
  const most = { ...PRINT, waiting: 10_000, isMoreWaiting: true, oldestMs: 60_000 };
  const [condition] = decideConditions({ ...NO_CONDITION, typesWithoutWorker: [most] });
  assert.match(condition?.text ?? "", /^10000\+/);
});

test("a free-space minimum of 0 disables the condition", () => {
  assert.deepEqual(found({ disk: { freeBytes: 0, freeBytesMin: 0 } }), []);
});

const MINUTE = 60_000;

const NO_FAULT: AttentionFacts = {
  ...{
    role: "operator",
    now: NOW,
    shortage: null,
    conditions: [],
    typesWithoutWorker: [],
    hosts: [],
    undelivered: 0,
  },
  ...{ oldestWaitingMs: null, keys: null, accessRequests: { count: 0, isMore: false } },
};

const FAILING = {
  ...{ host: "a.example", attempts: 5, succeeded: 0, failedAt: NOW },
  ...{ retrying: 1, refused: 0, isPaused: false },
};

function words(facts: Partial<AttentionFacts>): string[] {
  return decideAttention({ ...NO_FAULT, ...facts }).map(({ level, what }) => `${level} ${what}`);
}

test("a healthy service needs no attention", () => {
  const sound = { ...FAILING, succeeded: 1 };
  const keys = { active: 18, max: 20 };
  assert.deepEqual(words({ hosts: [sound], oldestWaitingMs: 60_000, keys }), []);
});

test("each fault has an entry, problems before warnings", () => {
  const all = words({
    ...{ shortage: "the disk is full", typesWithoutWorker: ["print"], undelivered: 1 },
    hosts: [FAILING],
    ...{
      oldestWaitingMs: 60_001,
      keys: { active: 19, max: 20 },
      accessRequests: { count: 1, isMore: false },
    },
  });
  assert.deepEqual(all, [
    ...["problem no_storage", "problem no_worker", "problem host_fails", "problem undelivered"],
    ...["warning waits_long", "warning keys_full", "warning access_requests"],
  ]);
});

test("every entry links to a page of the dashboard, and an account is referred to the operator", () => {
  const facts = {
    ...{ shortage: "the disk is full", typesWithoutWorker: ["print"], undelivered: 2 },
    ...{ hosts: [FAILING], oldestWaitingMs: 125_000, keys: { active: 20, max: 20 } },
    accessRequests: { count: 2, isMore: true },
  };
  const found = (role: AttentionFacts["role"]) => decideAttention({ ...NO_FAULT, ...facts, role });
  for (const { link } of found("operator")) assert.match(link ?? "", /^\/[a-z]+(\?q=[\w:%.,]+)?$/);
  const texts = found("operator").map(({ text }) => text);
  for (const value of ["the disk is full", "print", "a.example", "2 min 5 s", "20 of 20", "2+"]) {
    assert(texts.join("\n").includes(value), value);
  }
  for (const text of texts) assert.doesNotMatch(text, /the operator/);
  const accounts = found("account").map(({ what, text }) =>
    /the operator/.test(text) ? what : "",
  );
  for (const what of ["no_worker", "undelivered", "waits_long"])
    assert(accounts.some((each) => each === what));
});

test("a host needs attention if all its attempts of the last hour failed", () => {
  const bad = { ...FAILING, failedAt: NOW - 59 * MINUTE };
  assert.deepEqual(words({ hosts: [bad] }), ["problem host_fails"]);
  assert.deepEqual(words({ hosts: [{ ...bad, succeeded: 1 }] }), []);
  assert.deepEqual(words({ hosts: [{ ...bad, attempts: 0 }] }), []);
  assert.deepEqual(words({ hosts: [{ ...bad, failedAt: NOW - 60 * MINUTE }] }), []);
  assert.deepEqual(words({ hosts: [{ ...bad, failedAt: null }] }), []);
});

test("a failing host's entry mentions retries, a pause or a refusal", () => {
  const textOf = (facts: Partial<typeof FAILING>, role: AttentionFacts["role"] = "account") =>
    decideAttention({ ...NO_FAULT, hosts: [{ ...FAILING, ...facts }], role })[0]?.text ?? "";

  assert.match(textOf({}), /retries continue/);
  for (const facts of [{ isPaused: true }, { retrying: 0 }, { retrying: 0, refused: 2 }]) {
    assert.doesNotMatch(textOf(facts), /retries (?:continue|go on)/, JSON.stringify(facts));
  }
  assert.match(textOf({ isPaused: true }), /paused/);
  const refused = { retrying: 0, refused: 2 };
  assert.match(textOf(refused), /not retried.*ask the operator to allow .*webhooks\.allow/);
  assert.doesNotMatch(textOf(refused, "operator"), /the operator|fix the receiver/);
});

test("three failing hosts are named, and the others are counted", () => {
  const hosts = Array.from({ length: 5 }, (_, i) => {
    return { ...FAILING, host: `h${i}.example` };
  });
  const found = decideAttention({ ...NO_FAULT, hosts });
  assert.equal(found.length, 4);
  assert.match(found[3]?.text ?? "", /^2 more hosts fail/);
  assert.equal(found[3]?.link, "/hosts");
});

test("a host in a link is one word of the search", () => {
  const hosts = [{ ...FAILING, host: "[::1]" }];
  const [found] = decideAttention({ ...NO_FAULT, hosts });
  const query = new URLSearchParams(found?.link?.split("?")[1]);
  assert.equal(query.get("q"), "host:[::1]");
});
