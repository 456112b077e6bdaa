import assert from "node:assert/strict";
import { test } from "node:test";

import { measurePhases, openPhase } from "../../scripts/bench/phases.ts";
import { budgetLines, reportTable } from "../../scripts/bench/report.ts";
import { fillFile } from "../../scripts/flat/filling.ts";
import { createDaemonFile } from "../../scripts/kit/daemon-file.ts";
import { DatabaseView } from "../../scripts/kit/database-view.ts";
import { machineDescription } from "../../scripts/kit/machine.ts";
import { sourceProgram } from "../../scripts/kit/program.ts";
import { ScratchFolder } from "../../scripts/kit/scratch-folder.ts";

// What it measures is not asserted: only that it measures, and that what it counts on happens.
test("the bench measures the bare handler, task_post, and the whole way to a recorded postback", async (t) => {
  const scratch = new ScratchFolder();
  t.after(() => scratch[Symbol.dispose]());
  const measured: string[] = [];

  const results = await measurePhases({
    place: { program: sourceProgram(), folder: scratch.path },
    effort: { seconds: 0.1, connections: 4, tasks: 100 },
    rounds: 1,
    letters: ["a", "b", "d"],
    onSlice: ({ letter }) => measured.push(letter),
  });

  assert.deepEqual(measured, ["a", "b", "d"]);
  for (const { letter, slices } of results) {
    const [slice] = slices;
    assert(slice, `(${letter}) was not measured`);
    assert(slice.tasks > 0 && slice.tasksPerSecond > 0 && slice.p99Ms > 0, `(${letter}) is empty`);
    assert(slice.rssBytes > 10e6, `(${letter}) has no server`);
  }
  assert.equal(results[2]?.slices[0]?.tasks, 100);
  assert.equal(reportTable(results).split("\n").length, 5);
  const judged = budgetLines(results, "file").split("\n");
  assert.deepEqual(
    judged.map((line) => /\(([bcd])\)/.exec(line)?.[1]),
    ["b", "b", "b", "d", "d"],
  );
  const [, slow] = results;
  assert(slow, "(b) was not measured");
  const rates = [7999, 8000].map((tasksPerSecond) => ({
    ...slow,
    slices: slow.slices.map((slice) => ({ ...slice, tasksPerSecond })),
  }));
  const verdicts = rates.map((each) => budgetLines([each], "server").split("\n")[0]);
  assert.deepEqual(
    verdicts,
    ["MISSED", "kept"].map((what) => `- (b) at least 8,000 tasks/s: ${what}`),
  );
  assert.match(machineDescription(scratch.path), /cores/);
});

test("a full file holds what was asked for, and the whole way is measured with it", async (t) => {
  const scratch = new ScratchFolder();
  t.after(() => scratch[Symbol.dispose]());
  const place = { program: sourceProgram(), folder: scratch.path };
  const file = await createDaemonFile(place);

  await fillFile(file, { tasks: 400, retries: 50, accounts: 7, hosts: 10 });

  using view = new DatabaseView(file.database);
  assert.equal(view.number("SELECT count(DISTINCT account_seq) FROM tasks"), 7);
  assert.equal(view.number("SELECT count(DISTINCT host) FROM attempts"), 10);
  assert.equal(view.number("SELECT count(*) FROM attempts WHERE started_at IS NULL"), 50);
  assert.deepEqual(view.column("PRAGMA foreign_key_check"), []);
  await using stack = new AsyncDisposableStack();
  const effort = { seconds: 0.1, connections: 4, tasks: 100 };
  const phase = await openPhase("d", { place, effort, stack, newFile: async () => file });
  assert.equal((await phase.measure()).tasks, 100);
  assert.equal(view.number("SELECT count(*) FROM attempts WHERE started_at IS NULL"), 50);
});
