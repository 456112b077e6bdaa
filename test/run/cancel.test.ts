import assert from "node:assert/strict";
import { test } from "node:test";

import type { Logger } from "../../src/domain/log.ts";
import type { TaskProgress } from "../../src/domain/task/run.ts";
import type { RunOutcome, Runner } from "../../src/run/runner.ts";
import { TaskDispatcher } from "../../src/run/task-dispatcher.ts";
import { newLoneNode } from "../../src/store/common/lone-node.ts";
import type { ClaimedTask, TaskFinish } from "../../src/store/store.ts";
import { newClaimedTask } from "../helpers/claimed-task.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

const log: Logger = { debug() {}, info() {}, warn() {}, error() {} };
const COMPLETED: RunOutcome = { kind: "completed", resultText: "1" };

/** A run that ends when the test says so. */
interface Run {
  readonly id: string;
  readonly signal: AbortSignal;
  readonly end: (outcome: RunOutcome) => void;
}

function newTask(seq: number): ClaimedTask {
  return newClaimedTask({ seq, id: `task-${seq}` });
}

/** A dispatcher of one type, whose claims and runs end when the test says so. */
function startDispatcher({ concurrency = 1, retries = 0 } = {}) {
  const runs: Run[] = [];
  const claims: ((tasks: readonly ClaimedTask[]) => void)[] = [];
  const written: string[] = [];
  const runner: Runner = {
    concurrency,
    run: ({ id }, { signal }) => new Promise((resolve) => runs.push({ id, signal, end: resolve })),
  };
  const clock = createFakeClock({ now: 0 });
  const dispatcher = new TaskDispatcher({
    ...{ log, clock, giveUp: new AbortController().signal },
    cluster: newLoneNode(clock),
    types: new Map([["hold", { runner, retries }]]),
    retentionMs: 1000,
    health: { noteRun() {} },
    progress: new Map<string, TaskProgress>(),
    taskEnded: (id) => void written.push(`ended ${id}`),
    deliveriesDue: (lanes) => void written.push(`due ${lanes.map(({ host }) => host).join()}`),
    failed: (error) => assert.fail(String(error)),
    store: {
      claimTasks: () => new Promise((resolve) => claims.push(resolve)),
      finishTask: async ({ seq, state }: TaskFinish) => {
        written.push(`${state} ${seq}`);
        return [];
      },
      retryTask: async ({ seq }) => void written.push(`retry ${seq}`),
      requeueTasks: async (which) => {
        written.push(`requeue ${"of" in which ? which.of : which.seq}`);
        return 0;
      },
      releaseTask: async ({ seq }) => void written.push(`release ${seq}`),
    },
  });
  const claim = async (...tasks: readonly ClaimedTask[]): Promise<void> => {
    claims.shift()?.(tasks);
    await turn();
  };
  return { dispatcher, runs, claims, written, claim };
}

/** Lets everything that is settled take its effect. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

test("a task that is cancelled while it is being claimed is not started, and its neighbours are", async () => {
  const { dispatcher, runs, claim } = startDispatcher({ concurrency: 3 });
  dispatcher.wake();
  dispatcher.cancel("task-2");
  await claim(newTask(1), newTask(2), newTask(3));
  assert.deepEqual(
    runs.map(({ id }) => id),
    ["task-1", "task-3"],
  );
  assert.ok(runs.every(({ signal }) => !signal.aborted));
});

test("a claim that brings nothing but a cancelled task leaves its place to the next one", async () => {
  const { dispatcher, runs, claims, claim } = startDispatcher();
  dispatcher.wake();
  dispatcher.cancel("task-1");
  await claim(newTask(1));
  assert.equal(runs.length, 0);
  assert.equal(claims.length, 1);
  await claim(newTask(2));
  assert.deepEqual(
    runs.map(({ id }) => id),
    ["task-2"],
  );
});

test("an account that is disabled while it is claimed gets its tasks back not started, and its neighbours run", async () => {
  const { dispatcher, runs, written, claim } = startDispatcher({ concurrency: 3 });
  dispatcher.wake();
  dispatcher.suspend(new Set([2]));
  await claim(newTask(1), { ...newTask(2), accountId: 2 });

  const stopped = runs.find(({ id }) => id === "task-2");
  assert.deepEqual(
    runs.map(({ id, signal }) => [id, signal.aborted]),
    [
      ["task-1", false],
      ["task-2", true],
    ],
  );
  stopped?.end({ kind: "aborted" });
  await turn();
  assert.deepEqual(written, ["release 2"]);
  // A later claim may bring it again: it has been enabled then.
  await claim({ ...newTask(2), accountId: 2 });
  assert.equal(runs.at(-1)?.signal.aborted, false);
});

test("a run of a disabled account that ends by itself counts all the same", async () => {
  const { dispatcher, runs, written, claim } = startDispatcher();
  dispatcher.wake();
  await claim(newTask(1));
  dispatcher.suspend(new Set([1]));
  assert.equal(runs[0]?.signal.aborted, true);
  runs[0]?.end(COMPLETED);
  await turn();
  assert.deepEqual(written, ["completed 1", "ended task-1"]);
});

test("a cancel is remembered no longer than the claim that it met", async () => {
  const { dispatcher, runs, claim } = startDispatcher();
  dispatcher.wake();
  dispatcher.cancel("task-1");
  await claim();
  dispatcher.cancel("task-1");
  dispatcher.wake();
  await claim(newTask(1));
  assert.equal(runs.length, 1);
  assert.equal(runs[0]?.signal.aborted, false);
});

test("a cancel is forgotten with the claims that it met, however many others begin before they have ended", async () => {
  const { dispatcher, runs, claims, claim } = startDispatcher({ concurrency: 2 });
  dispatcher.wake();
  await claim(newTask(1), newTask(2));
  runs[0]?.end(COMPLETED);
  await turn();
  dispatcher.cancel("task-9");
  runs[1]?.end(COMPLETED);
  await turn();
  assert.equal(claims.length, 2, "a second claim is under way");
  await claim(newTask(3));
  await claim(newTask(9));
  assert.deepEqual(
    runs.map(({ id }) => id),
    ["task-1", "task-2", "task-3", "task-9"],
  );
});

test("cancelling a running task stops that run alone", async () => {
  const { dispatcher, runs, claim } = startDispatcher({ concurrency: 2 });
  dispatcher.wake();
  await claim(newTask(1), newTask(2));
  dispatcher.cancel("task-2");
  dispatcher.cancel("task-3");
  assert.deepEqual(
    runs.map(({ signal }) => signal.aborted),
    [false, true],
  );
});

test("a cancelled run holds its place until it has ended, however it ends", async () => {
  const failed: RunOutcome = { kind: "failed", message: "stopped", detail: {} };
  for (const outcome of [{ kind: "aborted" } as const, COMPLETED, failed]) {
    const { dispatcher, runs, claims, claim } = startDispatcher();
    dispatcher.wake();
    await claim(newTask(1));
    dispatcher.cancel("task-1");
    dispatcher.wake();
    assert.equal(claims.length, 0, outcome.kind);
    assert.equal(dispatcher.isIdle(), false);
    runs[0]?.end(outcome);
    await turn();
    assert.equal(claims.length, 1, outcome.kind);
  }
});

test("a stop ends cancelled runs with the others, and a cancel after it does no harm", async () => {
  const { dispatcher, runs, claim, written } = startDispatcher({ concurrency: 2 });
  dispatcher.wake();
  await claim(newTask(1), newTask(2));
  dispatcher.cancel("task-1");
  dispatcher.abort();
  assert.ok(runs.every(({ signal }) => signal.aborted));
  for (const { end } of runs) end({ kind: "aborted" });
  await dispatcher.quiet();
  assert.deepEqual(written, ["requeue 1", "requeue 2"]);
  dispatcher.cancel("task-1");
  await dispatcher.quiet();
});

test("after a drain it is idle as soon as nothing runs, whatever is still queued", async () => {
  const { dispatcher, runs, claim } = startDispatcher();
  dispatcher.wake();
  await claim(newTask(1));
  dispatcher.wake();
  dispatcher.drain();
  assert.equal(dispatcher.isIdle(), false);
  runs[0]?.end(COMPLETED);
  await dispatcher.quiet();
  assert.equal(dispatcher.isIdle(), true);
});
