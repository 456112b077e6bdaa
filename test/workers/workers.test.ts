import assert from "node:assert/strict";
import { test } from "node:test";

import { sourceProgram } from "../../scripts/kit/program.ts";
import { ScratchFolder } from "../../scripts/kit/scratch-folder.ts";
import { measureIdle } from "../../scripts/workers/idle.ts";
import { measureOtherNode } from "../../scripts/workers/other-node.ts";
import {
  budgetLine,
  idleLines,
  idleTable,
  otherNodeReport,
  throughputTable,
} from "../../scripts/workers/report.ts";
import { measureThroughput, type ThroughputRun } from "../../scripts/workers/throughput.ts";
import { testedProgram } from "../cluster/start.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../helpers/postgres.ts";

const SPREAD = { count: 1, p50Ms: 1, p99Ms: 2, p999Ms: 3, maxMs: 3 };
const RUN: ThroughputRun = {
  ...{ batch: 50, tasks: 100, tasksPerSecond: 25_000, claim: SPREAD, complete: SPREAD },
  ...{ daemonPercent: 60, threadPercent: 40, workersPercent: 20, workerPercent: 20 },
  rssBytes: 100e6,
};

// What is measured is not asserted: only that it is, and that what the scripts count on happens.
test("workers claim and complete every task, one by one and in batches", async (t) => {
  const scratch = new ScratchFolder();
  t.after(() => scratch[Symbol.dispose]());
  const seen: number[] = [];

  const runs = await measureThroughput({
    place: { program: sourceProgram(), folder: scratch.path },
    ...{ batches: [1, 50], tasks: 400, workers: 2, processes: 2, rounds: 1 },
    onRun: ({ batch }) => seen.push(batch),
  });

  assert.deepEqual(seen, [1, 50]);
  assert.deepEqual(
    runs.map(({ tasks, complete }) => [tasks, complete.count]),
    [
      [100, 100],
      [400, 8],
    ],
  );
  assert(runs.every(({ tasksPerSecond, claim }) => tasksPerSecond > 0 && claim.p99Ms > 0));
});

test("waiting workers are counted, and get what is posted then", async (t) => {
  const scratch = new ScratchFolder();
  t.after(() => scratch[Symbol.dispose]());
  const place = { program: sourceProgram(), folder: scratch.path };

  const report = await measureIdle({ place, workers: 20, seconds: 1, posts: 5, settleMs: 0 });

  assert.equal(report.hand.count, 5);
  assert.equal(report.emptyAnswers, 0);
  assert(report.rssBytesMax > 10e6);
  assert.match(idleTable(report), /20 workers wait/);
  assert.match(idleLines(report), /under 60 MB above idle/);
});

test(
  "a worker that waits at one node gets what is posted at another, also where nodes only look",
  { skip: reasonToSkipPostgres() },
  async (t) => {
    const scratch = new ScratchFolder();
    t.after(() => scratch[Symbol.dispose]());
    const place = { program: testedProgram(), folder: scratch.path };
    for (const how of ["notified", "polled"] as const) {
      const url = await newDatabaseUrl(t);
      const hand = await measureOtherNode({ place, url, posts: 3, how });
      assert.equal(hand.count, 3);
    }
    const at = (p50Ms: number): Parameters<typeof otherNodeReport>[0] => ({ ...SPREAD, p50Ms });
    assert.match(otherNodeReport(at(15), "notified"), /at most 15 ms: kept$/);
    assert.match(otherNodeReport(at(15.1), "notified"), /MISSED$/);
    assert.match(otherNodeReport(at(15.1), "polled"), /at most 1,100 ms: kept$/);
  },
);

test("a batch is bound by whoever has no time left", () => {
  const boundBy = (run: Partial<ThroughputRun>): string =>
    throughputTable([{ ...RUN, ...run }], 4)
      .split("|")
      .at(-2) ?? "";

  assert.match(boundBy({ workerPercent: 97, threadPercent: 97 }), /a process of workers/);
  assert.match(boundBy({ threadPercent: 97 }), /a thread of the daemon/);
  assert.match(boundBy({ daemonPercent: 8000 }), /all cores together/);
  assert.match(boundBy({}), /waiting/);
});

test("the budget is judged by the median of the rounds, and only where batches of 50 were measured", () => {
  const slow = { ...RUN, tasksPerSecond: 100 };

  assert.match(budgetLine([slow, RUN, RUN], "file"), /kept$/);
  assert.match(budgetLine([slow, slow, RUN], "file"), /MISSED$/);
  assert.equal(budgetLine([{ ...RUN, batch: 1 }], "file"), "");
  const fast = { ...RUN, tasksPerSecond: 8000 };
  assert.match(budgetLine([fast], "server"), /at least 8,000 tasks\/s: kept$/);
  assert.match(budgetLine([fast], "file"), /MISSED$/);
});
