import assert from "node:assert/strict";
import { test } from "node:test";

import { canMove, isFinished, type TaskState } from "../../src/domain/task/task.ts";

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
