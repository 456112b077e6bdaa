import assert from "node:assert/strict";
import { test } from "node:test";

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

const FIVE = claims(1000, 3001, 5002, 7003, 9004);
const VANISHED = '{"message":"5 workers in a row vanished"}';
const TIMED_OUT = {
  ...{ ...FAILED, code: 50401, completedAt: 11_500 },
  errorText: '{"message":"The worker ran past its timeout of 10 s."}',
};
const UNANSWERED = { ...COMPLETED, answeredAt: null, outcome: null };
const AGAIN = ask("fail", { leaseId: "b", message: MESSAGE.replace("a.", "b."), sentAt: 3000 });
const RELEASED = ask("release", { sentAt: 1200, answeredAt: 1210 });
const CANCEL = { sentAt: 1200, acknowledgedAt: 1210 };

const WORKERS_END: readonly (readonly [name: string, faults: readonly string[], RegExp?])[] = [
  ["a completion with outcome ok", leased(DONE, { asks: [COMPLETED] })],
  ["a completion without a response", leased(DONE, { asks: [UNANSWERED] })],
  ["a final failure", leased(FAILED, { asks: [ask("fail", { message: MESSAGE, retry: false })] })],
  [
    "a failure after all retries",
    leased(
      { ...FAILED, runs: 2, errorText: JSON.stringify({ message: AGAIN.message }) },
      { claims: claims(1000, 2500), asks: [ask("fail", { message: MESSAGE }), AGAIN] },
    ),
  ],
  [
    "a run that a release took back",
    leased(DONE, { claims: claims(1000, 1300), asks: [RELEASED, { ...COMPLETED, leaseId: "b" }] }),
  ],
  [
    "a run of a claim without a response",
    leased(
      { ...DONE, runs: 2 },
      { asks: [COMPLETED] },
      { lostClaims: [{ types: ["work"], from: 950, to: 990 }] },
    ),
  ],
  ["five lost leases", leased({ ...FAILED, runs: 5, errorText: VANISHED }, { claims: FIVE })],
  ["a timeout after its time", leased(TIMED_OUT, {})],
  ["a cancelled task", leased({ ...DONE, state: "cancelled" }, { cancel: CANCEL })],
  [
    "a lost completion",
    leased({ ...FAILED, errorText: VANISHED, runs: 5 }, { asks: [COMPLETED], claims: FIVE }),
    /completion was answered ok, and it is failed/,
  ],
  [
    "another result than the completion's",
    leased(DONE, { asks: [{ ...COMPLETED, result: '{"lease":"z"}' }, UNANSWERED] }),
    /completion was answered ok, and it is completed with/,
  ],
  ["a result without a completion", leased(DONE, {}), /nobody brought its result/],
  [
    "a result with outcome lost",
    leased(DONE, { asks: [{ ...COMPLETED, outcome: "lost" }] }),
    /nobody brought its result/,
  ],
  [
    "the result of an older lease",
    leased({ ...DONE, runs: 2 }, { claims: claims(1000, 3100), asks: [UNANSWERED] }),
    /older lease/,
  ],
  [
    "an end instead of a requested retry",
    leased(FAILED, { asks: [ask("fail", { message: MESSAGE, retry: true })] }),
    /had to be run again/,
  ],
  [
    "an end instead of the retry of its type",
    leased(FAILED, { asks: [ask("fail", { message: MESSAGE })] }),
    /had to be run again/,
  ],
  ["an error without a failure", leased(FAILED, {}), /nobody brought its error/],
  [
    "a timeout before its time",
    leased({ ...TIMED_OUT, completedAt: 1520 }, {}),
    /timed out before/,
  ],
  ["a cancelling without a request", leased({ ...DONE, state: "cancelled" }, {}), /nobody asked/],
  [
    "a cancelling without effect",
    leased(DONE, { asks: [COMPLETED], cancel: { sentAt: 1400, acknowledgedAt: 1410 } }),
    /cancelling was acknowledged, and it is completed/,
  ],
  [
    "a claim that is missing in runs",
    leased(DONE, {
      ...{ claims: claims(1000, 3100) },
      asks: [{ ...COMPLETED, leaseId: "b", sentAt: 3500 }],
    }),
    /claimed 2 times, and runs is 1/,
  ],
  [
    "a run without a claim",
    leased({ ...DONE, runs: 2 }, { asks: [COMPLETED] }),
    /2 runs, of which 1 are explained/,
  ],
];

const OWN: ShownTask = { ...DONE, type: "command", resultText: '{"done":"n"}' };
const FACTS: RunFacts = {
  expected: { kind: "completed", result: { done: "n" } },
  ...{ cancel: null, starts: 1, killedAt: [], retries: 0 },
};
const FAILING = { ...FACTS, expected: { kind: "failed", code: 50401 } } as const;

const OWN_END: typeof WORKERS_END = [
  ["the expected end", judgeOwnRun(OWN, FACTS)],
  ["a run that a kill cut off", judgeOwnRun({ ...OWN, runs: 2 }, { ...FACTS, killedAt: [1000] })],
  [
    "the expected failure",
    judgeOwnRun(
      { ...FAILED, type: "command", code: 50401, runs: 2 },
      { ...FAILING, starts: null, retries: 1 },
    ),
  ],
  [
    "a cancelled task that never ran",
    judgeOwnRun(
      { ...OWN, state: "cancelled", runs: 0 },
      { ...FACTS, cancel: { sentAt: 1000, acknowledgedAt: null } },
    ),
  ],
  ["another result", judgeOwnRun({ ...OWN, resultText: '{"done":"m"}' }, FACTS), /another result/],
  [
    "a failure instead of a completion",
    judgeOwnRun({ ...FAILED, type: "command" }, FACTS),
    /had to be completed/,
  ],
  ["a completion instead of a failure", judgeOwnRun(OWN, FAILING), /had to fail with 50401/],
  ["another failure", judgeOwnRun({ ...FAILED, code: 50010 }, FAILING), /had to fail with 50401/],
  ["more starts than runs", judgeOwnRun(OWN, { ...FACTS, starts: 2 }), /started 2 times/],
  [
    "more runs than starts after an older kill",
    judgeOwnRun({ ...OWN, runs: 2 }, { ...FACTS, killedAt: [100] }),
    /2 runs, of which 1 are explained/,
  ],
  ["a cancelling without a request", judgeOwnRun({ ...OWN, state: "cancelled" }, FACTS), /nobody/],
];

for (const [runner, rows] of [
  ["a worker", WORKERS_END],
  ["the daemon", OWN_END],
] as const) {
  for (const [name, faults, fault] of rows) {
    test(`the judge of runs of ${runner} ${fault === undefined ? "accepts" : "finds"} ${name}`, () => {
      assert.equal(faults.length, fault === undefined ? 0 : 1, faults.join("\n"));
      if (fault !== undefined) assert.match(faults[0] ?? "", fault);
    });
  }
}
