import assert from "node:assert/strict";
import { describe, test } from "node:test";

import {
  judgeLeasedRun,
  judgeOwnRun,
  type LeaseFacts,
  type RunFacts,
  type ShownTask,
} from "../../scripts/soak/ending-judge.ts";
import type { SeenAsk, TaskHistory } from "../../scripts/soak/lease-judge.ts";

const RULE = { leaseMs: 2000, timeoutMs: 10_000 };
const RESULT = '{"lease":"a"}';
const MESSAGE = "It went wrong with lease a.";
const DONE: ShownTask = {
  ...{ id: "task", type: "work", tag: null, state: "completed", code: 20000, runs: 1 },
  ...{ createdAt: 900, completedAt: 1520, resultText: RESULT, errorText: null },
};
const FAILED: ShownTask = {
  ...{ ...DONE, state: "failed", code: 50010, resultText: null },
  errorText: JSON.stringify({ message: MESSAGE, detail: null }),
};

function claims(...times: readonly number[]): TaskHistory["claims"] {
  return times.map((at, i) => {
    return { leaseId: "abcdefgh"[i] ?? "", sentAt: at, answeredAt: at + 10, expiresAt: at + 2000 };
  });
}

function ask(what: SeenAsk["what"], more: Partial<SeenAsk>): SeenAsk {
  const plain = { leaseId: "a", sentAt: 1500, answeredAt: 1520, outcome: "ok" } as const;
  return { what, ...plain, ...more };
}

const COMPLETED = ask("complete", { result: RESULT });
const NO = { asks: [], cancel: null };

function leased(task: ShownTask, history: Partial<TaskHistory>, more: Partial<LeaseFacts> = {}) {
  const seen = { id: "task", claims: claims(1000), ...NO, ...history };
  return judgeLeasedRun(task, { history: seen, rule: RULE, retries: 1, lostClaims: [], ...more });
}

describe("tasks of workers that ended as they may", () => {
  test("a completion that was answered ok is kept", () => {
    assert.deepEqual(leased(DONE, { asks: [COMPLETED] }), []);
  });

  test("a completion whose answer was lost may be kept", () => {
    const unanswered = ask("complete", { result: RESULT, answeredAt: null, outcome: null });
    assert.deepEqual(leased(DONE, { asks: [unanswered] }), []);
  });

  test("a final failure, and one too many, are kept", () => {
    const final = ask("fail", { message: MESSAGE, retry: false });
    const second = { leaseId: "b", message: MESSAGE.replace("a.", "b."), sentAt: 3000 };
    const errorText = JSON.stringify({ message: second.message });
    const asks = [ask("fail", { message: MESSAGE }), ask("fail", second)];

    assert.deepEqual(leased(FAILED, { asks: [final] }), []);
    const twice = { ...FAILED, runs: 2, errorText };
    assert.deepEqual(leased(twice, { claims: claims(1000, 2500), asks }), []);
  });

  test("a release takes its run back, and a claim whose answer was lost may add one", () => {
    const again = { ...COMPLETED, leaseId: "b" };
    const released = ask("release", { sentAt: 1200, answeredAt: 1210 });
    const both = { claims: claims(1000, 1300), asks: [released, again] };

    assert.deepEqual(leased(DONE, both), []);
    const lostClaims = [{ types: ["work"], from: 950, to: 990 }];
    assert.deepEqual(leased({ ...DONE, runs: 2 }, { asks: [COMPLETED] }, { lostClaims }), []);
  });

  test("five workers that vanished, and a timeout after its time, are causes", () => {
    const errorText = JSON.stringify({ message: "5 workers in a row vanished" });
    const five = { claims: claims(1000, 3001, 5002, 7003, 9004) };
    assert.deepEqual(leased({ ...FAILED, runs: 5, errorText }, five), []);

    const late = JSON.stringify({ message: "The worker ran past its timeout of 10 s." });
    const timedOut = { ...FAILED, code: 50401, completedAt: 11_500, errorText: late };
    assert.deepEqual(leased(timedOut, {}), []);
  });

  test("a task that its client cancelled is cancelled", () => {
    const cancel = { sentAt: 1200, acknowledgedAt: 1210 };
    assert.deepEqual(leased({ ...DONE, state: "cancelled" }, { cancel }), []);
  });
});

describe("tasks of workers that ended as they must not", () => {
  const cases: Readonly<Record<string, [readonly string[], RegExp]>> = {
    "a completion that was answered ok and is lost": [
      leased(
        { ...FAILED, errorText: '{"message":"5 workers in a row vanished"}', runs: 5 },
        { asks: [COMPLETED], claims: claims(1000, 3001, 5002, 7003, 9004) },
      ),
      /its completion was answered ok, and it is failed/,
    ],
    "a completion that was answered ok and is kept with another result": [
      leased(DONE, {
        asks: [
          { ...COMPLETED, result: '{"lease":"z"}' },
          { ...COMPLETED, outcome: null, answeredAt: null },
        ],
      }),
      /its completion was answered ok, and it is completed with/,
    ],
    "a result that nobody brought": [leased(DONE, {}), /nobody brought its result/],
    "a result that was answered lost": [
      leased(DONE, { asks: [{ ...COMPLETED, outcome: "lost" }] }),
      /nobody brought its result/,
    ],
    "the result of an older lease": [
      leased(
        { ...DONE, runs: 2 },
        { claims: claims(1000, 3100), asks: [{ ...COMPLETED, outcome: null, answeredAt: null }] },
      ),
      /its result is an older lease's/,
    ],
    "a failure that was to be run again": [
      leased(FAILED, { asks: [ask("fail", { message: MESSAGE, retry: true })] }),
      /it failed for good, and had to be run again/,
    ],
    "a first failure of a type with a retry": [
      leased(FAILED, { asks: [ask("fail", { message: MESSAGE })] }),
      /it failed for good, and had to be run again/,
    ],
    "an error that nobody brought": [leased(FAILED, {}), /nobody brought its error/],
    "a timeout before its time": [
      leased({ ...FAILED, code: 50401, errorText: '{"message":"too long"}' }, {}),
      /it timed out before its time/,
    ],
    "a cancelling that nobody asked for": [
      leased({ ...DONE, state: "cancelled" }, {}),
      /nobody asked for it/,
    ],
    "a cancelling that was acknowledged and did not hold": [
      leased(DONE, { asks: [COMPLETED], cancel: { sentAt: 1400, acknowledgedAt: 1410 } }),
      /its cancelling was acknowledged, and it is completed/,
    ],
    "a claim that runs does not count": [
      leased(DONE, {
        claims: claims(1000, 3100),
        asks: [{ ...COMPLETED, leaseId: "b", sentAt: 3500 }],
      }),
      /it was claimed 2 times, and runs is 1/,
    ],
    "a run that nobody claimed": [
      leased({ ...DONE, runs: 2 }, { asks: [COMPLETED] }),
      /it has 2 runs, of which 1 are explained/,
    ],
  };
  for (const [name, [faults, expected]] of Object.entries(cases)) {
    test(`${name} is found`, () => {
      assert.equal(faults.length, 1, faults.join("\n"));
      assert.match(faults[0] ?? "", expected);
    });
  }
});

const OWN: ShownTask = { ...DONE, type: "command", resultText: '{"done":"n"}' };
const FACTS: RunFacts = {
  expected: { kind: "completed", result: { done: "n" } },
  ...{ cancel: null, starts: 1, killedAt: [], retries: 0 },
};
const FAILING = { ...FACTS, expected: { kind: "failed", code: 50401 } } as const;

describe("tasks of the daemon's own runners", () => {
  test("an end as expected has no faults, and a kill in its time explains a run without a start", () => {
    assert.deepEqual(judgeOwnRun(OWN, FACTS), []);
    assert.deepEqual(judgeOwnRun({ ...OWN, runs: 2 }, { ...FACTS, killedAt: [1000] }), []);
    const failed = { ...FAILED, type: "command", code: 50401, runs: 2 };
    assert.deepEqual(judgeOwnRun(failed, { ...FAILING, starts: null, retries: 1 }), []);
    const cancel = { sentAt: 1000, acknowledgedAt: null };
    assert.deepEqual(
      judgeOwnRun({ ...OWN, state: "cancelled", runs: 0 }, { ...FACTS, cancel }),
      [],
    );
  });

  const cases: Readonly<Record<string, [readonly string[], RegExp]>> = {
    "another result": [
      judgeOwnRun({ ...OWN, resultText: '{"done":"m"}' }, FACTS),
      /has another result/,
    ],
    "a failure instead of a completion": [
      judgeOwnRun({ ...FAILED, type: "command" }, FACTS),
      /had to be completed/,
    ],
    "a completion instead of a failure": [judgeOwnRun(OWN, FAILING), /had to fail with 50401/],
    "another failure": [judgeOwnRun({ ...FAILED, code: 50010 }, FAILING), /had to fail with 50401/],
    "more starts than runs": [
      judgeOwnRun(OWN, { ...FACTS, starts: 2 }),
      /was started 2 times, and runs is 1/,
    ],
    "more runs than starts, and a kill that was before": [
      judgeOwnRun({ ...OWN, runs: 2 }, { ...FACTS, killedAt: [100] }),
      /has 2 runs, of which 1 are explained/,
    ],
    "a cancelling that nobody asked for": [
      judgeOwnRun({ ...OWN, state: "cancelled" }, FACTS),
      /nobody asked for it/,
    ],
  };
  for (const [name, [faults, expected]] of Object.entries(cases)) {
    test(`${name} is found`, () => {
      assert.equal(faults.length, 1, faults.join("\n"));
      assert.match(faults[0] ?? "", expected);
    });
  }
});
