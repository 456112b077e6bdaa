import assert from "node:assert/strict";
import { test } from "node:test";

import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import {
  type DatabaseHealth,
  type HeldSnapshot,
  type ServiceFacts,
  databaseWarnings,
  decideServiceStatus,
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
