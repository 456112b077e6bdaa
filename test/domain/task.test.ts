import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { STATUS_TABLE, isTaskError } from "../../src/domain/status.ts";
import {
  CLAIM_INPUT_MAX,
  inTurn,
  isClaimFull,
  newTurn,
  shareOf,
  type Turn,
} from "../../src/domain/task/claim-turn.ts";
import { decideRun } from "../../src/domain/task/run.ts";
import {
  STATE_CODES,
  STORED_STATES,
  canMove,
  decideCancel,
  decideErasure,
  isFinished,
  openStateOf,
  stateAtPost,
  type StoredState,
  type TaskState,
} from "../../src/domain/task/task.ts";
import { parseTrace, readTrace, traceHeaders, traceText } from "../../src/domain/task/trace.ts";

const STATES: readonly TaskState[] = ["queued", "running", "completed", "failed", "cancelled"];

const MOVES: ReadonlySet<string> = new Set([
  ...["queued → running", "queued → failed", "queued → cancelled", "running → completed"],
  ...["running → failed", "running → queued", "running → cancelled"],
]);

test("a task moves along the documented transitions, and a finished task stays", () => {
  for (const from of STATES) {
    for (const to of STATES) {
      const move = `${from} → ${to}`;
      assert.equal(canMove(from, to), MOVES.has(move), move);
    }
  }
  assert.deepEqual(STATES.filter(isFinished), ["completed", "failed", "cancelled"]);
});

const NOW = 1_900_000_000_000;

test("an accepted task with a later start is delayed, and any other is queued", () => {
  const cases = [
    [null, "queued"],
    [NOW - 1, "queued"],
    [NOW, "queued"],
    [NOW + 1, "delayed"],
  ] as const;
  for (const [startAt, state] of cases) assert.equal(stateAtPost({ startAt }, NOW), state);
});

const TASKS: readonly (readonly [StoredState | undefined, string, string | null])[] = [
  [undefined, "unknown", null],
  ["delayed", "cancelled", "queued"],
  ["queued", "cancelled", "queued"],
  ["running", "cancelled", "running"],
  ["completed", "finished", null],
  ["failed", "finished", null],
  ["cancelled", "cancelled before", null],
];

test("a cancel depends on the state of the task", () => {
  for (const [state, outcome, open] of TASKS) {
    assert.equal(decideCancel(state), outcome);
    if (state !== undefined) assert.equal(openStateOf(state), open);
  }
});

test("an open or cancelled task has the code of its state", () => {
  assert.equal(STATUS_TABLE[STATE_CODES.running].message, "Task In Progress.");
  assert.equal(STATUS_TABLE[STATE_CODES.cancelled].message, "Task Cancelled.");
  // Clients see a delayed task as queued.
  assert.equal(STATE_CODES.delayed, STATE_CODES.queued);
  for (const state of STORED_STATES) {
    if (isFinished(state)) continue;
    assert(state in STATE_CODES, state);
    const codes: Partial<Record<StoredState, keyof typeof STATUS_TABLE>> = STATE_CODES;
    assert(!isTaskError(codes[state] ?? 40000), state);
  }
});

test("a delayed task is queued or cancelled, and comes from a failed run", () => {
  const targets = STORED_STATES.filter((to) => canMove("delayed", to));
  const sources = STORED_STATES.filter((from) => canMove(from, "delayed"));

  assert.deepEqual(targets, ["queued", "cancelled"]);
  assert.deepEqual(sources, ["running"]);
});

const ERASED = [
  [undefined, false, false, "unknown"],
  ["running", false, true, "running"],
  ["queued", false, false, "erased"],
  ["completed", true, false, "to be sent"],
  ["completed", true, true, "erased"],
  ["cancelled", false, false, "erased"],
] as const;

test("an erasure is refused for running tasks, and for tasks with webhooks to send", () => {
  for (const [state, isToBeSent, hasWebhooks, outcome] of ERASED) {
    assert.equal(decideErasure(state, { isToBeSent, hasWebhooks }), outcome);
  }
});

const ENDED = Date.parse("2030-01-31T09:00:00.000Z");

/** Failures before, retries configured, and the wait in seconds, null after the last. */
const CASES = [
  ...["0 0 null", "1 0 null", "0 1 1", "1 1 null", "0 100 1", "1 100 2", "2 100 4", "5 100 32"],
  ...["6 100 60", "7 100 60", "99 100 60", "100 100 null", "101 100 null", "5000 10000 60"],
];

test("a failed run is retried after a doubled wait of at most a minute, until its retries are used", () => {
  for (const text of CASES) {
    const [failuresBefore, retries, seconds] = JSON.parse(`[${text.replaceAll(" ", ",")}]`);
    const decision = decideRun({ failuresBefore, retries, endedAt: ENDED });

    const expected =
      seconds === null ? { kind: "final" } : { kind: "again", startAt: ENDED + seconds * 1000 };
    assert.deepEqual(decision, expected, text);
  }
});

test("the remaining claims are shared evenly, at least one for each account", () => {
  const cases = [
    [64, 1, 64],
    [64, 2, 32],
    [64, 5, 12],
    [4, 5, 1],
    [1, 1000, 1],
  ] as const;
  for (const [left, accounts, share] of cases) assert.equal(shareOf(left, accounts), share);
});

test("claimed tasks alternate between the accounts", () => {
  const rowsOf: readonly (readonly string[])[] = [["a1", "a2", "a3"], [], ["c1"], ["d1", "d2"]];
  const turns = rowsOf.map((rows, i) => ({ ...newTurn<string>(i + 1), rows: [...rows] }));

  assert.deepEqual(inTurn(turns), ["a1", "c1", "d1", "a2", "d2", "a3"]);
  assert.deepEqual(inTurn([]), []);
});

test("a claim is full at the input limit", () => {
  assert.equal(isClaimFull({ inputLength: CLAIM_INPUT_MAX - 1 }), false);
  assert.equal(isClaimFull({ inputLength: CLAIM_INPUT_MAX }), true);
});

test("a claim takes all that fits, and no account gets two more than an account with waiting tasks", () => {
  const queues = fc.array(fc.nat(40), { minLength: 1, maxLength: 12 });
  fc.assert(
    fc.property(queues, fc.integer({ min: 1, max: 64 }), (waiting, max) => {
      const given = claim(waiting, max);
      const all = given.reduce((sum, count) => sum + count, 0);
      assert.equal(all, Math.min(max, sumOf(waiting)));
      for (const [i, count] of given.entries()) {
        if (count === waiting[i]) continue;
        for (const other of given)
          assert(other <= count + 1, `${waiting.join()} by ${max}: ${given.join()}`);
      }
    }),
  );
});

/** Claims as a store does. Returns the tasks claimed from each queue. */
function claim(waiting: readonly number[], max: number): readonly number[] {
  const turns = waiting.map((_, i) => newTurn<number>(i));
  let [left, open]: [number, Turn<number>[]] = [max, turns];
  while (left > 0 && open.length > 0) {
    const share = shareOf(left, open.length);
    for (const turn of open) {
      if (left === 0) break;
      const had = turn.rows.length;
      const count = Math.min(share, left, (waiting[turn.accountId] ?? 0) - had);
      for (let n = 0; n < count; n++) turn.rows.push(n);
      turn.mayHaveMore = count === share;
      left -= count;
    }
    open = open.filter(({ mayHaveMore }) => mayHaveMore);
  }
  return turns.map(({ rows }) => rows.length);
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

const PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const PARENT_OF_LATER = `cc${PARENT.slice(2)}-what-the-future-will-be-like`;

test("a valid traceparent is kept unchanged, also of a later version", () => {
  for (const traceparent of [PARENT, PARENT.replace(/01$/, "ff"), PARENT_OF_LATER]) {
    assert.deepEqual(parseTrace([traceparent], []), { traceparent, tracestate: null });
  }
});

test("an invalid traceparent is dropped", () => {
  const wrong = [
    ...["", PARENT.replace(/^00/, "ff"), PARENT.toUpperCase(), `${PARENT}-more`, `${PARENT}-`],
    PARENT.replace("0af7651916cd43dd8448eb211c80319c", "0".repeat(32)),
    PARENT.replace("b7ad6b7169203331", "0".repeat(16)),
    ...[PARENT.slice(0, -1), PARENT.replace("-", "_"), `cc${PARENT.slice(2)}.more`, ` ${PARENT}`],
    ...[`cc${PARENT.slice(2)}-${"x".repeat(500)}`, `${PARENT_OF_LATER}\n`],
  ];
  for (const text of wrong) assert.equal(parseTrace([text], ["a=1"]), null, text);
  assert.equal(parseTrace([], ["a=1"]), null);
  assert.equal(parseTrace([PARENT, PARENT], []), null);
});

test("a valid tracestate is kept, its lines joined", () => {
  const cases: readonly (readonly [string[], string | null])[] = [
    [["rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"], "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"],
    [["a=1", "b=2"], "a=1,b=2"],
    [["a=1 , ,\tfw529a3039@dt=FfAAAAAB "], "a=1,fw529a3039@dt=FfAAAAAB"],
    [["a=b c"], "a=b c"],
    [[`a=${"x".repeat(254)}`], `a=${"x".repeat(254)}`],
    [[""], null],
    [["A=1"], null],
    [["a"], null],
    [["a=1,b=c=d"], null],
    [["a=ü"], null],
    [["a=1\r\nX-Evil: 1"], null],
    [[Array.from({ length: 33 }, (_, i) => `k${i}=1`).join(",")], null],
    [[Array.from({ length: 5 }, (_, i) => `k${i}=${"x".repeat(110)}`).join(",")], null],
  ];
  for (const [lines, tracestate] of cases) {
    assert.deepEqual(parseTrace([PARENT], lines), { traceparent: PARENT, tracestate });
  }
});

test("a stored trace becomes headers, and invalid text does not", () => {
  const trace = parseTrace([PARENT], ["a=1"]);
  assert.deepEqual(readTrace(traceText(trace)), trace);
  assert.deepEqual(traceHeaders(traceText(trace)), { traceparent: PARENT, tracestate: "a=1" });
  assert.equal(traceText(null), null);
  const others = [null, "", "null", "[1]", '"x"', "{}", '{"traceparent":"x\\r\\ny: z"}'];
  for (const text of others) assert.deepEqual(traceHeaders(text), {}, String(text));
});
