import assert from "node:assert/strict";
import { test } from "node:test";

import { decideAttention, type AttentionFacts } from "../../src/domain/stats/attention.ts";

const NOW = Date.parse("2026-01-31T09:00:00.000Z");
const MINUTE = 60_000;

const CALM: AttentionFacts = {
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
  return decideAttention({ ...CALM, ...facts }).map(({ level, what }) => `${level} ${what}`);
}

test("nothing needs attention while everything is in order", () => {
  const sound = { ...FAILING, succeeded: 1 };
  const keys = { active: 18, max: 20 };
  assert.deepEqual(words({ hosts: [sound], oldestWaitingMs: 60_000, keys }), []);
});

test("each thing that is out of order is told, problems first", () => {
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

test("every sentence says how many, and links lead to the dashboard's own pages", () => {
  const facts = {
    ...{ shortage: "the disk is full", typesWithoutWorker: ["print"], undelivered: 2 },
    hosts: [{ ...FAILING, attempts: 1 }],
    ...{
      oldestWaitingMs: 125_000,
      keys: { active: 20, max: 20 },
      accessRequests: { count: 2, isMore: true },
    },
  };
  const found = decideAttention({ ...CALM, ...facts });
  const texts = found.map(({ text }) => text).join("\n");
  for (const part of [
    ...["the disk is full", "type print", "The only attempt to reach a.example failed lately"],
    ...["2 webhooks are undelivered", "2 min 5 s", "20 of 20", "2+ requests"],
  ]) {
    assert(texts.includes(part), part);
  }
  for (const { text, link } of found) {
    assert.match(text, /\.$/);
    assert.match(link ?? "", /^\/[a-z]+(\?q=[\w:%.,]+)?$/);
  }
});

test("an account is told to ask the operator for what only the operator can do", () => {
  const facts = { undelivered: 2, oldestWaitingMs: 125_000, typesWithoutWorker: ["print"] };
  const textsFor = (role: AttentionFacts["role"]) =>
    decideAttention({ ...CALM, ...facts, role }).map(({ text }) => text);

  assert.deepEqual(textsFor("account"), [
    "Tasks of type print wait, and no worker for it has connected in the last minute. " +
      "Ask the operator to start one, or see why it cannot reach this daemon.",
    "2 webhooks are undelivered: given up after all retries, or refused because the address may not be called. " +
      "Fix the receiver, or ask the operator to allow the address with webhooks.allow; then send them again.",
    "The oldest waiting task has waited for 2 min 5 s. Look at what is running; to have more run at a time, " +
      "ask the operator to raise the type's concurrency or start more workers.",
  ]);
  for (const text of textsFor("operator")) assert.doesNotMatch(text, /the operator/);
});

test("a host needs attention when all that it got in the last hour failed", () => {
  const bad = { ...FAILING, failedAt: NOW - 59 * MINUTE };
  assert.deepEqual(words({ hosts: [bad] }), ["problem host_fails"]);
  assert.deepEqual(words({ hosts: [{ ...bad, succeeded: 1 }] }), []);
  assert.deepEqual(words({ hosts: [{ ...bad, attempts: 0 }] }), []);
  assert.deepEqual(words({ hosts: [{ ...bad, failedAt: NOW - 60 * MINUTE }] }), []);
  assert.deepEqual(words({ hosts: [{ ...bad, failedAt: null }] }), []);
});

test("retries to a failing host continue only if any are left and not paused", () => {
  const textOf = (facts: Partial<typeof FAILING>, role: AttentionFacts["role"] = "account") =>
    decideAttention({ ...CALM, hosts: [{ ...FAILING, ...facts }], role })[0]?.text ?? "";

  assert.match(textOf({}), /retries continue/);
  for (const facts of [{ isPaused: true }, { retrying: 0 }, { retrying: 0, refused: 2 }]) {
    assert.doesNotMatch(textOf(facts), /retries (?:continue|go on)/, JSON.stringify(facts));
  }
  assert.match(textOf({ isPaused: true }), /paused/);
  const refused = { retrying: 0, refused: 2 };
  assert.match(textOf(refused), /not retried.*ask the operator to allow .*webhooks\.allow/);
  assert.doesNotMatch(textOf(refused, "operator"), /the operator|fix the receiver/);
});

test("of many hosts that fail three are named, and the others are counted", () => {
  const hosts = Array.from({ length: 5 }, (_, i) => {
    return { ...FAILING, host: `h${i}.example` };
  });
  const found = decideAttention({ ...CALM, hosts });
  assert.equal(found.length, 4);
  assert.match(found[3]?.text ?? "", /^2 more hosts fail/);
  assert.equal(found[3]?.link, "/hosts");
});

test("a host's name in a link is one word of the search, whatever it is", () => {
  const hosts = [{ ...FAILING, host: "[::1]" }];
  const [found] = decideAttention({ ...CALM, hosts });
  const query = new URLSearchParams(found?.link?.split("?")[1]);
  assert.equal(query.get("q"), "host:[::1]");
});
