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
  const found = (role: AttentionFacts["role"]) => decideAttention({ ...CALM, ...facts, role });
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

test("three failing hosts are named, and the others are counted", () => {
  const hosts = Array.from({ length: 5 }, (_, i) => {
    return { ...FAILING, host: `h${i}.example` };
  });
  const found = decideAttention({ ...CALM, hosts });
  assert.equal(found.length, 4);
  assert.match(found[3]?.text ?? "", /^2 more hosts fail/);
  assert.equal(found[3]?.link, "/hosts");
});

test("a host in a link is one word of the search", () => {
  const hosts = [{ ...FAILING, host: "[::1]" }];
  const [found] = decideAttention({ ...CALM, hosts });
  const query = new URLSearchParams(found?.link?.split("?")[1]);
  assert.equal(query.get("q"), "host:[::1]");
});
