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

test("there is nothing to mend while everything is in order", () => {
  const disk = { freeBytes: 400, freeBytesMin: 100 };
  const certificate = { from: NOW - 60 * DAY_MS, to: NOW + 30 * DAY_MS };
  assert.deepEqual(found({ disk, certificate }), []);
});

const PRINT = { type: "print", waiting: 2, isMoreWaiting: false };

test("everything that is wrong is a condition of its own, with a remedy, and no sentence has a full stop", () => {
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
    assert.doesNotMatch(`${text}\n${remedy}`, /\.$/m);
    assert(remedy !== "");
  }
});

test("of several daemons each says that it speaks of its own attempts", () => {
  const failingHosts = [{ host: "a.example", failures: 3, since: NOW }];
  const [told] = decideConditions({ ...CALM, failingHosts, isAlone: false });
  assert.match(
    told?.text ?? "",
    /^3 attempts to reach a\.example from this node have failed since/,
  );
});

test("a certificate runs out soon two weeks before its end, or a quarter of its life where that is shorter", () => {
  const lives = (days: number, leftMs: number): string[] =>
    found({ certificate: { from: NOW + leftMs - days * DAY_MS, to: NOW + leftMs } });
  assert.deepEqual(lives(90, 14 * DAY_MS + 1), []);
  assert.deepEqual(lives(90, 14 * DAY_MS), ["certificate.expiring"]);
  assert.deepEqual(lives(8, 2 * DAY_MS + 1), []);
  assert.deepEqual(lives(8, 2 * DAY_MS), ["certificate.expiring"]);
});

test("tasks wait for a worker in vain once one has waited for a minute", () => {
  const waits = (oldestMs: number): string[] =>
    found({ typesWithoutWorker: [{ ...PRINT, oldestMs }] });
  assert.deepEqual(waits(59_999), []);
  assert.deepEqual(waits(60_000), ["worker.missing"]);
});

test("a count of waiting tasks that stopped at its maximum ends with a plus", () => {
  const most = { ...PRINT, waiting: 10_000, isMoreWaiting: true, oldestMs: 60_000 };
  const [told] = decideConditions({ ...CALM, typesWithoutWorker: [most] });
  assert.match(told?.text ?? "", /^10000\+ tasks of type print wait/);
});

test("a floor of 0 is no floor: then the disk is never low", () => {
  assert.deepEqual(found({ disk: { freeBytes: 0, freeBytesMin: 0 } }), []);
});
