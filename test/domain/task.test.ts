import assert from "node:assert/strict";
import { test } from "node:test";

import { canMove, isFinished, type TaskState } from "../../src/domain/task/task.ts";

const STATES: readonly TaskState[] = ["queued", "running", "completed", "failed", "cancelled"];

const MOVES: ReadonlySet<string> = new Set([
  "queued → running",
  "queued → failed",
  "queued → cancelled",
  "running → completed",
  "running → failed",
  "running → queued",
  "running → cancelled",
]);

for (const from of STATES) {
  for (const to of STATES) {
    const may = MOVES.has(`${from} → ${to}`);
    test(`${may ? "allows" : "forbids"} ${from} → ${to}`, () => {
      assert.equal(canMove(from, to), may);
    });
  }
}

test("takes a state for the end of a task that no move leads out of", () => {
  assert.deepEqual(STATES.filter(isFinished), ["completed", "failed", "cancelled"]);
});
