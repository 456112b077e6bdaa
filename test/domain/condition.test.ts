import assert from "node:assert/strict";
import { test } from "node:test";

import { DAY_MS } from "../../src/domain/clock/duration.ts";
import {
  CONDITION_NAMES,
  decideConditions,
  type ConditionFacts,
} from "../../src/domain/stats/condition.ts";

const NOW = Date.parse("2026-01-31T09:00:00.000Z");

const CALM: ConditionFacts = {
  ...{ now: NOW, fault: null, shortage: null, disk: null, backupFailure: null, certificate: null },
  ...{ typesWithoutWorker: [], failingHosts: [], limitedAccounts: [], untrustedProxy: null },
  ...{ isAlone: true, retention: null, databaseWarnings: [], lostNodes: [] },
};

function found(facts: Partial<ConditionFacts>): string[] {
  return decideConditions({ ...CALM, ...facts }).map(({ name }) => name);
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
  const [condition] = decideConditions({ ...CALM, failingHosts, isAlone: false });
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
  const [condition] = decideConditions({ ...CALM, typesWithoutWorker: [most] });
  assert.match(condition?.text ?? "", /^10000\+/);
});

test("a free-space minimum of 0 disables the condition", () => {
  assert.deepEqual(found({ disk: { freeBytes: 0, freeBytesMin: 0 } }), []);
});
