import assert from "node:assert/strict";
import { test } from "node:test";

import { everyStep } from "../../src/domain/error.ts";

test("each step runs in order, also after a step that throws or rejects", async () => {
  const done: string[] = [];
  const error = new Error("boom");

  const all = everyStep([
    () => void done.push("a"),
    () => {
      done.push("b");
      throw error;
    },
    () => void done.push("c"),
    async () => void done.push("d"),
    () => void done.push("e"),
  ]);
  // Up to the first asynchronous step.
  assert.deepEqual(done, ["a", "b", "c", "d"]);

  await assert.rejects(all, error);
  assert.deepEqual(done, ["a", "b", "c", "d", "e"]);
});

test("several errors are thrown together", async () => {
  const [first, second] = [new Error("first"), new Error("second")];

  await assert.rejects(
    everyStep([() => Promise.reject(first), () => {}, () => Promise.reject(second)]),
    { name: "AggregateError", errors: [first, second] },
  );
});
