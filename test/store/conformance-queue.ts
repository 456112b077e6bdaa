import assert from "node:assert/strict";
import { test } from "node:test";

import type { QueuePlace, Store } from "../../src/store/store.ts";
import {
  claimOne,
  newExpiry,
  newFinish,
  newPost,
  newRefusedTask,
  newTask,
  retainedUntil,
  RETENTION_MS,
  seedAccount,
  T0,
  webhook,
  pluck,
  withAccount,
  postTask,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

const HOUR = 3600 * 1000;

/** Serves the queue for some hours, with a checkpoint each. Returns the newest that is old enough. */
async function serve(store: Store, hours: number, queueHours = 24): Promise<number | null> {
  let mark: number | null = null;
  for (let i = 0; i < hours; i++) {
    const served = { servedMs: HOUR, everyMs: HOUR, queueMs: queueHours * HOUR };
    mark = await store.markQueue(served);
  }
  return mark;
}

async function firstMark(store: Store): Promise<void> {
  assert.equal(await store.markQueue({ servedMs: 0, everyMs: HOUR, queueMs: HOUR }), null);
}

/** Walks through the whole queue; returns the ended ids, and their number by page. */
async function expireAll(store: Store, mark: number, max = 100) {
  const ids: string[] = [];
  const hosts: string[] = [];
  const pages: number[] = [];
  let after: QueuePlace | null = null;
  do {
    const page = await store.expireQueued(newExpiry(mark, { after, max }));
    ids.push(...page.tasks.map(({ id }) => id));
    hosts.push(...page.lanes.map(({ host }) => host));
    pages.push(page.tasks.length);
    after = page.next;
  } while (after !== null);
  return { ids, hosts, pages };
}

export function exerciseQueueExpiry(open: OpenStore): void {
  test("the age of a checkpoint is the time during which the queue was served", async (t) => {
    const { store, again } = await open(t);
    await firstMark(store);

    assert.equal(await serve(store, 23), null);
    const reopened = await again();
    const mark = await serve(reopened, 1);
    assert(mark !== null);
    assert.equal(
      await reopened.markQueue({ servedMs: 1, everyMs: HOUR, queueMs: 24 * HOUR }),
      mark,
    );
    assert.notEqual(await serve(reopened, 1), mark);
  });

  test("tasks queued before a checkpoint end, page by page, of every type, account and priority", async (t) => {
    const { store } = await open(t);
    const accounts = [await seedAccount(store, "a"), await seedAccount(store, "b")];
    await firstMark(store);
    const old: string[] = [];
    for (const accountId of accounts) {
      for (const type of ["echo", "hash"]) {
        for (const priority of [0, 9]) {
          const tasks = Array.from({ length: 7 }, () => newTask({ type, priority }));
          await store.insertTasks(newPost(accountId, tasks));
          old.push(...tasks.map(({ id }) => id));
        }
      }
    }
    await serve(store, 1);
    const young = newTask({ priority: 9 });
    await store.insertTasks(newPost(accounts[0] ?? 0, [young]));
    const mark = (await serve(store, 24)) ?? assert.fail();

    const { ids, pages } = await expireAll(store, mark, 5);

    assert.deepEqual(ids.toSorted(), old.toSorted());
    assert(
      pages.every((count) => count <= 5),
      pages.join(),
    );
    assert.equal((await claimOne(store)).id, young.id);
  });

  test("tasks that entered the queue after the checkpoint are kept and skipped", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    await firstMark(store);
    const delayed = Array.from({ length: 9 }, () => newTask({ startAt: T0 + HOUR }));
    const [again, last] = [newTask(), newTask()];
    await store.insertTasks(newPost(accountId, [...delayed, again]));
    const { seq } = await claimOne(store);
    await store.insertTasks(newPost(accountId, [last]));
    await serve(store, 2);
    await store.releaseDelayed({ now: T0 + HOUR, max: 10 });
    await store.requeueTasks({ seq });
    const mark = (await serve(store, 23)) ?? assert.fail();

    assert.deepEqual((await expireAll(store, mark, 3)).ids, [last.id]);
    const later = (await serve(store, 2)) ?? assert.fail();
    const { ids } = await expireAll(store, later, 3);
    assert.deepEqual(
      ids,
      [...delayed, again].map(({ id }) => id),
    );
  });

  test("an expired task is ready and counted as failed, and its webhooks are due", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    await firstMark(store);
    const task = await postTask(store, accountId, {
      postback: webhook("a.example"),
      pingback: webhook("b.example"),
    });
    const mark = (await serve(store, 25)) ?? assert.fail();
    const endedAt = T0 + 25 * HOUR;
    const errorText = '{"message":"m","detail":null}';
    const times = { endedAt, ...retainedUntil(endedAt + RETENTION_MS) };
    const { end } = newExpiry(mark);

    const page = await store.expireQueued(
      newExpiry(mark, { end: { ...end, ...times, errorText } }),
    );

    assert.deepEqual(page.tasks, [{ id: task.id, type: "echo" }]);
    assert.deepEqual(pluck(page.lanes, "host").toSorted(), ["a.example", "b.example"]);
    const found = await store.findTask({ accountId, id: task.id });
    assert(found !== null);
    const { state, statusCode, completedAt, startedAt, runs } = found.task;
    assert.deepEqual(
      [state, statusCode, completedAt, startedAt, runs],
      ["failed", 50402, endedAt, null, 0],
    );
    assert.deepEqual([found.isReady, found.task.errorText], [true, errorText]);
    const { queued, failed, ready } = await store.countWork(accountId);
    assert.deepEqual([queued, failed, ready], [0, 1, 1]);
    assert.deepEqual(pluck(await store.listLanes({ accountId: "all" }), "host").sort(), [
      "a.example",
      "b.example",
    ]);
    assert.equal((await store.eraseExpired({ now: T0 + 99 * RETENTION_MS, max: 9 })).looked, 1);
  });

  test("running, cancelled and delayed tasks do not expire", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    await firstMark(store);
    const [runs, cancelled, delayed] = [newTask(), newTask(), newTask({ startAt: T0 + 99 * HOUR })];
    await store.insertTasks(newPost(accountId, [runs]));
    await claimOne(store);
    await store.insertTasks(newPost(accountId, [cancelled, delayed]));
    const cancel = { accountId, id: cancelled.id, cancelledAt: T0 };
    await store.cancelTask({ ...cancel, ...retainedUntil(T0 + RETENTION_MS) });
    const mark = (await serve(store, 25)) ?? assert.fail();

    assert.deepEqual((await expireAll(store, mark)).ids, []);
    const { running, delayed: waiting } = await store.countWork(accountId);
    assert.deepEqual([running, waiting], [1, 1]);
  });

  test("a task with the seq of an erased task has its own age and its own run", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    await firstMark(store);
    await store.insertTasks(newPost(accountId, [newTask()]));
    const erased = await claimOne(store);
    await serve(store, 24);
    const cancel = { accountId, id: erased.id, cancelledAt: T0 };
    await store.cancelTask({ ...cancel, ...retainedUntil(T0 + RETENTION_MS) });
    assert.equal(await store.eraseTask({ id: erased.id, hasWebhooks: false }), "erased");
    const next = newTask();
    await store.insertTasks(newPost(accountId, [next]));
    const mark = (await serve(store, 2)) ?? assert.fail();

    assert.deepEqual((await expireAll(store, mark)).ids, []);
    const { seq } = await claimOne(store);
    const { id } = erased;
    // SQLite gives the number of an erased row to the next one: there the two are the same. A server never does.
    for (const each of [seq, erased.seq]) {
      assert.equal(await store.finishTask({ ...newFinish({ seq: each }), id }), null);
      await store.retryTask({ seq: each, id, startAt: T0 });
      assert.equal(await store.requeueTasks({ seq: each, id }), 0);
    }
    assert.equal((await store.findTask({ accountId, id: next.id }))?.task.state, "running");
    assert.equal(await store.requeueTasks({ seq, id: next.id }), 1);
  });

  test("an account is erased in parts with all its rows, and no row of another account", async (t) => {
    const { store } = await open(t);
    const [gone, kept] = [await seedAccount(store, "a"), await seedAccount(store, "b")];
    for (const accountId of [gone, kept]) {
      await store.insertTasks(newPost(accountId, [newTask({ postback: webhook("a.example") })]));
      await store.finishTask(newFinish(await claimOne(store)));
      await store.insertTasks(newPost(accountId, [newTask({ type: "hash", startAt: T0 + HOUR })]));
    }
    const idempotency = { key: "k", bodyHash: "h", answerText: "{}", steadyAt: T0, eraseAt: T0 };
    await store.insertTasks(newPost(gone, [], { refused: [newRefusedTask()], idempotency }));
    assert.deepEqual(await store.eraseAccountPart({ login: "c" }), { kind: "unknown" });
    assert.deepEqual(await store.eraseAccountPart({ login: "a" }), { kind: "enabled" });
    await store.setAccountDisabled({ login: "a", disabledAt: T0 });

    let parts = 0;
    let tasks = 0;
    const bytes: number[] = [];
    for (let part = await store.eraseAccountPart({ login: "a" }); part.kind === "more"; parts++) {
      tasks += part.tasks;
      bytes.push((await store.countWork(gone)).bytes);
      part = await store.eraseAccountPart({ login: "a" });
    }

    assert.equal(tasks, 3);
    assert(parts > 2, "not part by part");
    assert((bytes.at(0) ?? 0) > 0);
    assert.equal(bytes.at(-1), 0, "enabled again by now, it would begin with nothing");
    assert.equal(await store.findAccount("a"), null);
    const none = await store.countWork(gone);
    assert.equal(
      Object.values(none).every((count) => count === 0),
      true,
    );
    const { completed, delayed, ready } = await store.countWork(kept);
    assert.deepEqual([completed, delayed, ready], [1, 1, 1]);
    assert.notEqual(await seedAccount(store, "a"), gone);
  });

  test("tasks of a disabled account expire after the account is enabled", async (t) => {
    const { store } = await open(t);
    const accountId = await seedAccount(store, "ada");
    await firstMark(store);
    const task = await postTask(store, accountId);
    await serve(store, 1);
    const mark = (await serve(store, 24)) ?? assert.fail();
    const disable = (disabledAt: number | null) =>
      store.setAccountDisabled({ login: "ada", disabledAt });

    await disable(T0);
    assert.deepEqual((await expireAll(store, mark)).ids, []);
    await disable(null);
    assert.deepEqual((await expireAll(store, mark)).ids, [task.id]);
  });
}
