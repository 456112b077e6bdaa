import assert from "node:assert/strict";
import { test } from "node:test";

import { progressText, progressTexts } from "../../src/cli/move-progress.ts";

test("a table's progress is its rows, their rate, and the time that the rest takes", () => {
  const tasks = { table: "tasks", rows: 120_000, of: 1_000_000 };

  assert.equal(progressText(tasks, 999), "tasks: 120,000 of 1,000,000");
  assert.equal(progressText(tasks, 2400), "tasks: 120,000 of 1,000,000, 50,000/s, 18 s left");
  assert.equal(progressText(tasks, 120_000), "tasks: 120,000 of 1,000,000, 1,000/s, 15 min left");
  assert.equal(
    progressText({ ...tasks, rows: 1_000_000 }, 10_000),
    "tasks: 1,000,000 of 1,000,000, 100,000/s",
  );
});

test("each table has a rate of its own, from the end of the one before", () => {
  let now = 0;
  const textOf = progressTexts(() => now);

  now = 10_000;
  assert.equal(textOf({ table: "keys", rows: 10, of: 10 }), "keys: 10 of 10, 1/s");
  now = 12_000;
  assert.equal(
    textOf({ table: "tasks", rows: 1000, of: 3000 }),
    "tasks: 1,000 of 3,000, 500/s, 4 s left",
  );
  now = 16_000;
  assert.equal(textOf({ table: "tasks", rows: 3000, of: 3000 }), "tasks: 3,000 of 3,000, 500/s");
});
