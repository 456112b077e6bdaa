import assert from "node:assert/strict";
import { test } from "node:test";

import type { Logger } from "../../src/domain/log.ts";
import type { TaskProgress } from "../../src/domain/task/run.ts";
import { ClaimCredit } from "../../src/run/claim-credit.ts";
import type { RunOutcome, Runner } from "../../src/run/runner.ts";
import { TaskDispatcher } from "../../src/run/task-dispatcher.ts";
import { newLoneNode } from "../../src/store/common/lone-node.ts";
import {
  StoreError,
  type ClaimedTask,
  type TaskFinish,
  type TaskPostOutcome,
} from "../../src/store/store.ts";
import { newClaimedTask } from "../helpers/claimed-task.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { newPost, newTask as newPostedTask } from "../helpers/store.ts";

const log: Logger = { debug() {}, info() {}, warn() {}, error() {} };
const COMPLETED: RunOutcome = { kind: "completed", resultText: "1" };

/** A run that the test ends. */
interface Run {
  readonly id: string;
  readonly signal: AbortSignal;
  readonly report: (progress: TaskProgress) => void;
  readonly end: (outcome: RunOutcome) => void;
}

/** A post whose end the test decides. */
interface Posting {
  readonly starting: readonly string[];
  readonly resolve: (outcome: TaskPostOutcome) => void;
  readonly reject: (error: Error) => void;
}

function newTask(seq: number): ClaimedTask {
  return newClaimedTask({ seq, id: `task-${seq}` });
}

/** A dispatcher of one type, whose claims and runs the test ends. */
function startDispatcher({ concurrency = 1, retries = 0 } = {}) {
  const runs: Run[] = [];
  const claims: ((tasks: readonly ClaimedTask[]) => void)[] = [];
  const posts: Posting[] = [];
  const failures: unknown[] = [];
  const written: string[] = [];
  /** Results are stored after this. */
  const disk = { stored: Promise.resolve() };
  const runner: Runner = {
    concurrency,
    run: ({ id }, options) => new Promise((end) => runs.push({ id, ...options, end })),
  };
  const clock = createFakeClock({ now: 0 });
  const progress = new Map<string, TaskProgress>();
  const dispatcher = new TaskDispatcher({
    ...{ log, clock, giveUp: new AbortController().signal },
    cluster: newLoneNode(clock),
    types: new Map([["hold", { runner, retries }]]),
    retentionMs: 1000,
    health: { noteRun() {} },
    progress,
    taskEnded: (id) => void written.push(`ended ${id}`),
    deliveriesDue: (lanes) => void written.push(`due ${lanes.map(({ host }) => host).join()}`),
    failed: (error) => void failures.push(error),
    store: {
      insertTasks: (post) =>
        new Promise((resolve, reject) => {
          const starting = [...(post.starting ?? [])];
          posts.push({ starting, resolve, reject });
        }),
      claimTasks: () => new Promise((resolve) => claims.push(resolve)),
      finishTask: async ({ seq, state }: TaskFinish) => {
        await disk.stored;
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
  const post = (...ids: readonly string[]) => {
    const tasks = ids.map((id, i) => newPostedTask({ id, type: "hold", priority: i }));
    return dispatcher.insertTasks(newPost(1, tasks));
  };
  return { dispatcher, runs, claims, posts, post, failures, written, claim, progress, disk };
}

/** Waits for the effects of settled promises. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

test("a task that is cancelled during its claim does not start, and other tasks of the claim start", async () => {
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

test("a claim with only a cancelled task frees its slot", async () => {
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

test("tasks of an account that is disabled during a claim are released, and other tasks run", async () => {
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
  // The account may be enabled before a later claim.
  await claim({ ...newTask(2), accountId: 2 });
  assert.equal(runs.at(-1)?.signal.aborted, false);
});

test("a run of a disabled account that ends by itself counts", async () => {
  const { dispatcher, runs, written, claim } = startDispatcher();
  dispatcher.wake();
  await claim(newTask(1));
  dispatcher.suspend(new Set([1]));
  assert.equal(runs[0]?.signal.aborted, true);
  runs[0]?.end(COMPLETED);
  await turn();
  assert.deepEqual(written, ["completed 1", "ended task-1"]);
});

test("a cancelling is forgotten with the claim that it met", async () => {
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

test("a cancelling is forgotten with its claims, although other claims begin before their end", async () => {
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

test("the cancelling of a running task stops only its run", async () => {
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

test("a cancelled run holds its slot until its end, with every outcome", async () => {
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

test("a claim that ended at the length of its inputs is followed by another", async () => {
  const { dispatcher, claims, claim } = startDispatcher({ concurrency: 9 });
  dispatcher.wake();
  await claim({ ...newTask(1), inputText: "x".repeat(4 * 1024 * 1024) });
  assert.equal(claims.length, 1);
});

test("a task whose claim ends after an abort is released", async () => {
  const { dispatcher, runs, claim, written } = startDispatcher();
  dispatcher.wake();
  dispatcher.abort();
  await claim(newTask(1));
  assert.equal(runs[0]?.signal.aborted, true);
  runs[0]?.end({ kind: "aborted" });
  await dispatcher.quiet();
  assert.deepEqual(written, ["release 1"]);
});

test("results that cannot be stored stop the claims", async () => {
  const { dispatcher, runs, claims, claim, disk } = startDispatcher();
  const { promise, resolve } = Promise.withResolvers<void>();
  disk.stored = promise;
  for (let wake = 0; wake < 9; wake++) dispatcher.wake();
  for (const seq of [1, 2]) {
    assert.equal(claims.length, 1);
    await claim(newTask(seq));
    runs.at(-1)?.end(COMPLETED);
    await turn();
  }
  dispatcher.tick();
  assert.equal(claims.length, 0);

  resolve();
  await turn();
  assert.equal(claims.length, 1);
});

test("an abort ends cancelled runs too, and a later cancelling has no effect", async () => {
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

test("after a drain the dispatcher is idle at the end of its runs, although tasks are queued", async () => {
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

test("the last progress of a run is known until its end, its cancelling or its abort", async () => {
  const half = { progress: 0.5, note: null };
  for (const outcome of [COMPLETED, { kind: "failed", message: "", detail: {} } as const, null]) {
    const { dispatcher, runs, claim, progress } = startDispatcher();
    dispatcher.wake();
    await claim(newTask(1));
    const [run] = runs;
    assert(run !== undefined && progress.size === 0);
    run.report({ progress: 0.1, note: "begun" });
    run.report(half);
    assert.deepEqual(progress.get("task-1"), half);
    if (outcome === null) {
      dispatcher.cancel("task-1");
      progress.delete("task-1");
    } else {
      run.end(outcome);
      await turn();
    }
    run.report(half);
    assert.equal(progress.get("task-1"), undefined);
  }
});

test("posted tasks start in free slots, by priority, after the answer to their post", async () => {
  const { runs, claims, posts, post, written } = startDispatcher({ concurrency: 3 });
  const answered = post("low", "middle", "high", "highest");
  assert.deepEqual(posts[0]?.starting, ["highest", "high", "middle"]);
  void post("next");
  assert.deepEqual(posts[1]?.starting, []);

  posts[0]?.resolve({ kind: "inserted", started: [2, 3, 4] });
  await answered;

  assert.equal(runs.length, 0);
  await turn();
  assert.deepEqual(
    runs.map(({ id }) => id),
    ["highest", "high", "middle"],
  );
  // The numbers are in the order of the post.
  runs[0]?.end(COMPLETED);
  await turn();
  assert.ok(written.includes("completed 4"));
  assert.equal(claims.length, 0);
});

test("posted tasks get the slots that no claim has reserved, and none while tasks may be queued", () => {
  const credit = new ClaimCredit(4);
  assert.equal(credit.reserve(1, 2), 1);
  credit.wake();
  assert.equal(credit.reserve(1, 2), 0);
  const claim = credit.begin(1);
  assert.equal(credit.reserve(1, 2), 0);
  credit.release(1);
  assert.equal(credit.reserve(9, 2), 1);
  credit.end(claim, { found: 1, isCutShort: false });
  assert.equal(credit.reserve(1, 2), 0);
});

test("a post that starts nothing gives its slots back", async () => {
  const { dispatcher, posts, post, claims, failures } = startDispatcher();
  const ends: readonly ((given: Posting) => void)[] = [
    ({ resolve }) => resolve({ kind: "inserted" }),
    ({ resolve }) => resolve({ kind: "kept", bodyHash: "", answerText: "" }),
    ({ reject }) => reject(new StoreError("overloaded", "busy")),
  ];
  for (const [i, end] of ends.entries()) {
    const answered = post(`task-${i}`);
    assert.deepEqual(posts[i]?.starting, [`task-${i}`]);
    end(posts[i] ?? assert.fail());
    await answered.catch(() => {});
    await turn();
  }
  assert.deepEqual(failures, []);
  assert.equal(dispatcher.isIdle(), true);
  dispatcher.wake();
  assert.equal(claims.length, 1);
});

test("a post of which nothing is known stops the engine", async () => {
  const { posts, post, failures } = startDispatcher();
  const answered = post("task");
  const unknown = new StoreError("unknown", "lost");
  posts[0]?.reject(unknown);
  await assert.rejects(answered, unknown);
  await turn();
  assert.deepEqual(failures, [unknown]);
});

test("tasks that are cancelled or of a disabled account when their post commits do not run", async () => {
  const { dispatcher, runs, posts, post, written } = startDispatcher({ concurrency: 2 });
  void post("cancelled", "suspended");
  dispatcher.cancel("cancelled");
  dispatcher.suspend(new Set([1]));
  posts[0]?.resolve({ kind: "inserted", started: [1, 2] });
  await turn();
  await turn();
  assert.deepEqual(
    runs.map(({ id, signal }) => [id, signal.aborted]),
    [["suspended", true]],
  );
  assert.deepEqual(written, ["requeue 1"]);
});
