import assert from "node:assert/strict";
import { test } from "node:test";

import type { Logger } from "../../src/domain/log.ts";
import type { TaskProgress } from "../../src/domain/task/run.ts";
import type { RunOptions, RunOutcome } from "../../src/run/runner.ts";
import { TaskDispatcher } from "../../src/run/task-dispatcher.ts";
import { newLoneNode } from "../../src/store/common/lone-node.ts";
import type { TaskClaim } from "../../src/store/store.ts";
import { newClaimedTask } from "../helpers/claimed-task.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

const log: Logger = { debug() {}, info() {}, warn() {}, error() {} };
const HALF = { progress: 0.5, note: null };

/** A dispatcher of a type whose one run reports and ends as the test says. */
async function startRun() {
  const runs: { readonly options: RunOptions; readonly end: (outcome: RunOutcome) => void }[] = [];
  const claims: TaskClaim[] = [];
  const progress = new Map<string, TaskProgress>();
  const clock = createFakeClock({ now: 0 });
  const dispatcher = new TaskDispatcher({
    ...{ log, clock, giveUp: new AbortController().signal, progress },
    cluster: newLoneNode(clock),
    types: new Map([
      [
        "hold",
        {
          retries: 0,
          runner: {
            concurrency: 1,
            run: (_request, options) => new Promise((end) => runs.push({ options, end })),
          },
        },
      ],
    ]),
    ...{ retentionMs: 1000, health: { noteRun() {} }, taskEnded() {}, deliveriesDue() {} },
    failed: (error) => assert.fail(String(error)),
    store: {
      claimTasks: async (claim) =>
        claims.push(claim) > 1 ? [] : [newClaimedTask({ accountId: 7 })],
      finishTask: async () => [],
      retryTask: async () => {},
      requeueTasks: async () => 0,
      releaseTask: async () => {},
    },
  });
  dispatcher.wake();
  await new Promise((resolve) => setImmediate(resolve));
  const [run] = runs;
  assert(run);
  return { dispatcher, progress, claims, ...run };
}

test("what a run reports last is known until it ends, however it ends", async () => {
  const outcomes: RunOutcome[] = [
    { kind: "completed", resultText: "1" },
    { kind: "failed", message: "", detail: {} },
    { kind: "aborted" },
  ];
  for (const outcome of outcomes) {
    const { dispatcher, progress, options, end } = await startRun();
    assert.equal(progress.get("a"), undefined);
    options.report({ progress: 0.1, note: "begun" });
    options.report(HALF);
    assert.deepEqual(progress.get("a"), HALF);
    end(outcome);
    await dispatcher.quiet();
    assert.equal(progress.get("a"), undefined);
    options.report(HALF);
    assert.equal(progress.get("a"), undefined, "a run that has ended reports nothing");
  }
});

test("a cancelled run reports no more", async () => {
  const { dispatcher, progress, options } = await startRun();
  options.report(HALF);
  dispatcher.cancel("a");
  progress.delete("a");
  options.report(HALF);
  assert.equal(progress.get("a"), undefined);
});
