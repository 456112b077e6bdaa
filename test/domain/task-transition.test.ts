import assert from "node:assert/strict";
import { test } from "node:test";

import { isTaskError, STATUS_TABLE } from "../../src/domain/status.ts";
import {
  STATE_CODES,
  STORED_STATES,
  type StoredState,
  canMove,
  decideCancel,
  decideErasure,
  isFinished,
  openStateOf,
  stateAtPost,
} from "../../src/domain/task/task.ts";

const NOW = 1_900_000_000_000;

test("an accepted task is delayed where it may start later than it was posted, else queued", () => {
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

for (const [state, outcome, open] of TASKS) {
  test(`a wish to cancel a task that is ${state ?? "not there"}: ${outcome}`, () => {
    assert.equal(decideCancel(state), outcome);
    if (state !== undefined) assert.equal(openStateOf(state), open);
  });
}

test("what waits, runs or was cancelled has its code from its state, and a code of the table", () => {
  assert.equal(STATUS_TABLE[STATE_CODES.running].message, "Task In Progress.");
  assert.equal(STATUS_TABLE[STATE_CODES.cancelled].message, "Task Cancelled.");
  // Clients are not shown that a task may not start yet.
  assert.equal(STATE_CODES.delayed, STATE_CODES.queued);
  for (const state of STORED_STATES) {
    if (isFinished(state)) continue;
    assert(state in STATE_CODES, state);
    const codes: Partial<Record<StoredState, keyof typeof STATUS_TABLE>> = STATE_CODES;
    assert(!isTaskError(codes[state] ?? 40000), state);
  }
});

test("a delayed task comes into the queue or is cancelled, and only a run that failed leads to one", () => {
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

for (const [state, isToBeSent, hasWebhooks, outcome] of ERASED) {
  const webhook = isToBeSent ? " and has a webhook to send" : "";
  const meant = hasWebhooks ? ", such ones too" : "";
  test(`to erase a task that is ${state ?? "not there"}${webhook}${meant}: ${outcome}`, () => {
    assert.equal(decideErasure(state, { isToBeSent, hasWebhooks }), outcome);
  });
}
