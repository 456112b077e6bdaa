import assert from "node:assert/strict";
import { test } from "node:test";

import type { Store, TaskQuery } from "../../src/store/store.ts";
import {
  claimOne,
  newFinish,
  newPost,
  newRefusedTask,
  newTask,
  newTaskCancels,
  newTaskId,
  taskQuery,
  retainedUntil,
  RETENTION_MS,
  seedAccount,
  T0,
  webhook,
  pluck,
  withAccount,
  withAccounts,
  postTask,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

export function exerciseListing(open: OpenStore): void {
  test("a list has the fields of a task without its input, result and error", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const { id } = await postTask(store, accountId, { inputText: "1" });
    await store.finishTask(newFinish(await claimOne(store)));

    const list = await store.listTasks(taskQuery(accountId));

    assert.deepEqual(list, {
      examinedUntil: T0,
      tasks: [
        {
          ...{ id, state: "completed", statusCode: 20000, statusMessage: null, type: "echo" },
          ...{ createdAt: T0, startedAt: T0, completedAt: T0 + 1000 },
          ...{ expiresAt: T0 + 1000 + RETENTION_MS, runs: 1, dataText: `{"type":"echo"}` },
        },
      ],
      next: null,
    });
  });

  // A thousand refused tasks with all their fields would exhaust the memory.
  test("a page ends before it is too large, and has at least one task", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const quarters = [1, 3, 3, 6, 1, 1, 1, 1];
    const refused = quarters.map((size) =>
      newRefusedTask({ dataText: `{"x":"${"é".repeat(size * 125_000)}"}` }),
    );
    for (const task of refused) {
      await store.insertTasks(newPost(accountId, [], { refused: [task] }));
    }
    const pages: (readonly string[])[] = [];
    let after: TaskQuery["after"] = null;
    do {
      const page = await store.listTasks(taskQuery(accountId, { after }));
      pages.push(pluck(page.tasks, "id"));
      after = page.next;
    } while (after !== null);

    assert.deepEqual(pluck(pages, "length"), [4, 1, 1, 2]);
    const newestFirst = pluck(refused, "id").reverse();
    assert.deepEqual(pages.flat(), newestFirst);
  });

  test("an acknowledged task is in the next list", async (t) => {
    const { store, accountId } = await withAccount(open(t));

    for (let i = 1; i <= 20; i++) {
      const task = await postTask(store, accountId);
      const { tasks } = await store.listTasks(taskQuery(accountId, { limit: 1 }));
      assert.equal(tasks[0]?.id, task.id);
    }
  });

  test("concurrent lists return their own tasks, also after a close began", async (t) => {
    const { store } = await open(t);
    const logins = Array.from({ length: 10 }, (_, i) => `account-${i}`);
    const accounts = await Promise.all(logins.map((login) => seedAccount(store, login)));
    const tasks = accounts.map(() => newTask());
    await Promise.all(
      accounts.map((id, i) => store.insertTasks(newPost(id, tasks.slice(i, i + 1)))),
    );

    const lists = accounts.map((id) => store.listTasks(taskQuery(id)));
    await store.close();

    const found = (await Promise.all(lists)).map((page) => pluck(page.tasks, "id"));
    assert.deepEqual(found.flat(), pluck(tasks, "id"));
  });
}

function cancel(store: Store, accountId: number, id: string): ReturnType<Store["cancelTask"]> {
  return store.cancelTask({ accountId, id, cancelledAt: T0 + 500, ...retainedUntil(T0 + 777) });
}

export function exerciseCancelling(open: OpenStore): void {
  for (const before of ["queued", "delayed", "running", "to be retried"] as const) {
    test(`a ${before} task is cancelled once and stays cancelled`, async (t) => {
      const { store, accountId } = await withAccount(open(t));
      const startAt = before === "delayed" ? T0 + 1000 : null;
      const task = await postTask(store, accountId, { startAt, postback: webhook("a.example") });
      const hasRun = before === "running" || before === "to be retried";
      const seq = hasRun ? (await claimOne(store)).seq : null;
      if (before === "to be retried" && seq !== null) {
        await store.retryTask({ seq, startAt: T0 + 1000 });
      }

      assert.equal(await cancel(store, accountId, task.id), "cancelled");

      const found = await store.findTask({ accountId, id: task.id });
      assert.equal(found?.isReady, false);
      assert.equal(found.task.state, "cancelled");
      assert.equal(found.task.statusCode, 40901);
      assert.equal(found.task.completedAt, T0 + 500);
      assert.equal(found.task.expiresAt, T0 + 777);
      assert.equal(found.task.runs, hasRun ? 1 : 0);
      assert.equal(found.task.startedAt, before === "running" ? T0 : null);

      const late = { accountId, id: task.id, cancelledAt: T0 + 9000, ...retainedUntil(T0 + 9999) };
      assert.equal(await store.cancelTask(late), "cancelled before");
      await store.releaseDelayed({ now: T0 + 9000, max: 10 });
      assert.deepEqual(await store.claimTasks({ type: "echo", max: 10, now: T0 }), []);
      if (seq !== null) {
        assert.equal(await store.finishTask(newFinish({ seq })), null);
        await store.retryTask({ seq, startAt: T0 });
        assert.equal(await store.requeueTasks({ seq }), 0);
      }
      assert.equal(await store.requeueTasks({ of: "earlier life" }), 0);
      await store.collectTask({ accountId, id: task.id });
      assert.deepEqual(await store.findTask({ accountId, id: task.id }), found);
    });
  }

  test("a cancelled task is not ready and has no deliveries", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const task = await postTask(store, accountId, { tag: "a", postback: webhook("a.example") });
    await claimOne(store);
    await cancel(store, accountId, task.id);

    for (const filter of [{}, { tag: "a" }, { type: "echo" }]) {
      assert.deepEqual((await store.listReady(taskQuery(accountId, filter))).tasks, []);
    }
    assert.deepEqual(await store.listDeliveries({ accountId, id: task.id }), []);
    assert.deepEqual(await store.listLanes({ accountId: "all" }), []);
    assert.equal((await store.eraseExpired({ now: T0 + 776, max: 10 })).looked, 0);
    assert.equal((await store.eraseExpired({ now: T0 + 777, max: 10 })).looked, 1);
  });

  test("a cancel of an ended task has no effect", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const [completed, failed] = [newTask(), newTask()];
    const refused = newRefusedTask();
    for (const [task, state] of [
      [completed, "completed"],
      [failed, "failed"],
    ] as const) {
      await store.insertTasks(newPost(accountId, [task]));
      await store.finishTask(newFinish(await claimOne(store), { state }));
    }
    await store.insertTasks(newPost(accountId, [], { refused: [refused] }));

    for (const { id } of [completed, failed, refused]) {
      const found = await store.findTask({ accountId, id });
      assert.equal(await cancel(store, accountId, id), "finished");
      assert.deepEqual(await store.findTask({ accountId, id }), found);
    }
  });

  test("a cancel of another account's task has no effect", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    const task = await postTask(store, ada);

    assert.equal(await cancel(store, bob, task.id), "unknown");
    assert.equal(await cancel(store, ada, newTaskId()), "unknown");

    assert.equal((await store.findTask({ accountId: ada, id: task.id }))?.task.state, "queued");
  });

  test("a cancel of many tasks returns the tasks that were in its states", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    const [ended, running, queued, delayed, theirs] = [
      ...[newTask(), newTask(), newTask(), newTask({ startAt: T0 + 1000 }), newTask()],
    ] as const;
    await store.insertTasks(newPost(ada, [ended]));
    await store.finishTask(newFinish(await claimOne(store)));
    await store.insertTasks(newPost(ada, [running]));
    await claimOne(store);
    await store.insertTasks(newPost(ada, [queued, delayed]));
    await store.insertTasks(newPost(bob, [theirs]));
    const all = [ended, running, queued, delayed, theirs].map(({ id }) => id);
    const ids = [...all, newTaskId(), queued.id];

    const waiting = newTaskCancels(ada, { ids, states: ["queued"] });
    assert.deepEqual(await store.cancelTasks(waiting), {
      ...{ queued: [queued.id, delayed.id], running: [] },
    });
    const any = newTaskCancels(ada, { ids });
    assert.deepEqual(await store.cancelTasks(any), { queued: [], running: [running.id] });
    assert.deepEqual(await store.cancelTasks(any), { queued: [], running: [] });

    const states = { queued: 0, running: 0, completed: 1, failed: 0, cancelled: 3 };
    const data = await store.findAccountData({ accountId: ada, revokedMax: 0 });
    assert.deepEqual(data?.taskCounts, states);
    const kept = await store.findTask({ accountId: bob, id: theirs.id });
    assert.equal(kept?.task.state, "queued");
  });

  test("ended and erased tasks are found among ids, tasks that may run again are not", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const runs: Record<string, { readonly seq: number; readonly id: string }> = {};
    for (const name of ["running", "retried", "requeued", "completed", "cancelled", "erased"]) {
      await store.insertTasks(newPost(accountId, [newTask()]));
      const { seq, id } = await claimOne(store);
      runs[name] = { seq, id };
    }
    const run = (name: string) => runs[name] ?? assert.fail(name);
    await store.retryTask({ ...run("retried"), startAt: T0 + 1000 });
    await store.requeueTasks(run("requeued"));
    await store.finishTask(newFinish(run("completed")));
    for (const name of ["cancelled", "erased"]) await cancel(store, accountId, run(name).id);
    await store.eraseTask({ id: run("erased").id, hasWebhooks: false });

    const ended = await store.findEndedTasks({ ids: Object.values(runs).map(({ id }) => id) });

    assert.deepEqual(ended, [run("completed").id, run("cancelled").id, run("erased").id]);
    assert.deepEqual(await store.findEndedTasks({ ids: [] }), []);
  });
}

export function exerciseQueue(open: OpenStore): void {
  test("the wait of the oldest queued task of the given types is found", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const post = (createdAt: number, ...tasks: Parameters<typeof newPost>[1]) =>
      store.insertTasks(newPost(accountId, tasks, { createdAt }));
    const oldest = (...types: readonly string[]) => store.findOldestQueued(types);
    assert.equal(await oldest("echo", "hash"), null);

    await post(T0 + 5000, newTask({ priority: 9 }));
    await post(T0 + 6000, newTask({ priority: 3 }), newTask({ type: "hash" }));
    // It waits since its release, not since its post.
    await post(T0, newTask({ type: "later", startAt: T0 + 8000 }));

    assert.equal(await oldest(), null);
    assert.equal(await oldest("none", "later"), null);
    assert.equal(await oldest("echo", "hash", "later"), T0 + 5000);
    assert.equal(await oldest("hash"), T0 + 6000);
    await store.releaseDelayed({ now: T0 + 8000, max: 10 });
    assert.equal(await oldest("later"), T0 + 8000);
    assert.equal((await store.claimTasks({ type: "echo", max: 1, now: T0 })).length, 1);
    assert.equal(await oldest("echo", "later"), T0 + 6000);
  });

  test("each type of queued or delayed tasks is listed once", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const types = async () => [...(await store.listQueuedTypes())].sort();
    assert.deepEqual(await types(), []);

    const later = [
      newTask({ type: "b", startAt: T0 + 1000 }),
      newTask({ type: "d", startAt: T0 + 2000 }),
    ];
    const now = ["c", "a", "b", "a", "c"].map((type) => newTask({ type }));
    const refused = [newRefusedTask({ type: "e" }), newRefusedTask({ type: null })];
    await store.insertTasks(newPost(accountId, [...later, ...now], { refused }));

    assert.deepEqual(await types(), ["a", "b", "c", "d"]);
    await store.claimTasks({ type: "a", max: 10, now: T0 });
    await store.claimTasks({ type: "b", max: 10, now: T0 });
    assert.deepEqual(await types(), ["b", "c", "d"]);
  });

  test("types with a queued task are found among the given types", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const later = newTask({ type: "later", startAt: T0 + 1000 });
    const tasks = [newTask(), newTask({ type: "hash", priority: 9 }), newTask(), later];
    await store.insertTasks(newPost(accountId, tasks));

    assert.deepEqual(await store.findWaitingTypes(["none", "hash", "later", "echo"]), [
      "hash",
      "echo",
    ]);
    assert.deepEqual(await store.findWaitingTypes(["hash"]), ["hash"]);
    assert.deepEqual(await store.findWaitingTypes([]), []);
    await store.claimTasks({ type: "hash", max: 1, now: T0 });
    assert.deepEqual(await store.findWaitingTypes(["hash", "echo"]), ["echo"]);
    await store.releaseDelayed({ now: T0 + 1000, max: 10 });
    assert.deepEqual(await store.findWaitingTypes(["later"]), ["later"]);
  });
}
