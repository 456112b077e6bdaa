import assert from "node:assert/strict";
import { test } from "node:test";

import { STATUS_TABLE, isTaskError } from "../../src/domain/status.ts";
import {
  STATE_CODES,
  STORED_STATES,
  type StoredState,
  type TaskState,
  canMove,
  decideCancel,
  decideErasure,
  isFinished,
  openStateOf,
  stateAtPost,
} from "../../src/domain/task/task.ts";

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
