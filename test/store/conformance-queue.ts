import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { CLAIM_INPUT_MAX, type QueuePlace, type Store } from "../../src/store/store.ts";
import { deliveryFilter, newOrder, placeOrder } from "../helpers/delivery.ts";
import {
  LEASE_MS,
  RETENTION_MS,
  T0,
  claimOne,
  endLease,
  leaseOne,
  newExpiry,
  newFinish,
  newLeaseClaim,
  newLeaseEnd,
  newLeaseType,
  newPost,
  newRefusedTask,
  newTask,
  pluck,
  postTask,
  retainedUntil,
  seedAccount,
  seedDelivery,
  seedWorker,
  webhook,
  withAccount,
  withAccounts,
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

export function exerciseFairness(open: OpenStore): void {
  test("concurrent claims take the turns of one after the other", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    const eve = await seedAccount(store, "eve");
    for (const accountId of [ada, bob, eve]) {
      await store.insertTasks(newPost(accountId, [newTask(), newTask()]));
    }
    const claims = [1, 1, 2, 1].map((max) => store.claimTasks({ type: "echo", max, now: T0 }));
    const claimed = (await Promise.all(claims)).flat();
    assert.deepEqual(pluck(claimed, "accountId"), [ada, bob, eve, ada, bob]);
  });

  test("a claim ends with the input that exceeds its limit, and the next claim continues", async (t) => {
    const { store } = await open(t);
    const account = await seedAccount(store, "ada");
    const inputText = JSON.stringify("x".repeat(CLAIM_INPUT_MAX / 2 - 2));
    const tasks = Array.from({ length: 5 }, () => newTask({ inputText }));
    for (const task of tasks) await store.insertTasks(newPost(account, [task]));
    const claim = async () => store.claimTasks({ type: "echo", max: 100, now: T0 });
    const claims = [await claim(), await claim(), await claim(), await claim()];
    assert.deepEqual(
      claims.map((claimed) => pluck(claimed, "id")),
      [tasks.slice(0, 2), tasks.slice(2, 4), tasks.slice(4), []].map((part) => pluck(part, "id")),
    );
  });

  test("the limit of inputs holds for a worker's claim of several types", async (t) => {
    const { store } = await open(t);
    const account = await seedAccount(store, "ada");
    const workerId = await seedWorker(store);
    const inputText = JSON.stringify("x".repeat(CLAIM_INPUT_MAX / 2 - 2));
    const types = ["scan", "print", "echo"];
    const tasks = types.map((type) => newTask({ type, inputText }));
    for (const task of tasks) await store.insertTasks(newPost(account, [task]));
    const order = newLeaseClaim(workerId, { types: types.map((type) => newLeaseType({ type })) });

    const claims = [await store.claimLeases(order), await store.claimLeases(order)];

    assert.deepEqual(
      claims.map((claimed) => pluck(claimed, "type")),
      [["scan", "print"], ["echo"]],
    );
  });

  test("priority, then age, decide within an account, not between accounts", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    const ofAda = [0, 9, 5, 9].map((priority) => newTask({ priority }));
    const ofBob = [0, 1].map((priority) => newTask({ priority }));
    await store.insertTasks(newPost(ada, ofAda));
    await store.insertTasks(newPost(bob, ofBob));
    const claimed = await store.claimTasks({ type: "echo", max: 5, now: T0 });
    const expected = [ofAda[1], ofBob[1], ofAda[3], ofBob[0], ofAda[2]];
    assert.deepEqual(
      pluck(claimed, "id"),
      expected.map((task) => task?.id),
    );
  });

  test("a worker's types are served in order, each up to its limit, together up to the limit of the claim", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const workerId = await seedWorker(store);
    const posted = ["x", "y", "z"].flatMap((type) => [1, 2, 3].map(() => newTask({ type })));
    await store.insertTasks(newPost(accountId, posted));
    const claim = async (max: number, ...types: readonly (readonly [string, number])[]) => {
      const leaseTypes = types.map(([type, most]) => newLeaseType({ type, max: most }));
      const tasks = await store.claimLeases(newLeaseClaim(workerId, { types: leaseTypes, max }));
      return pluck(tasks, "type").join("");
    };

    assert.equal(await claim(4, ["y", 2], ["x", 5], ["z", 5]), "yyxx");
    assert.equal(await claim(4, ["none", 9], ["z", 0], ["x", 9]), "x");
    assert.deepEqual([await claim(0, ["z", 9]), await claim(9)], ["", ""]);
    assert.equal(await claim(9, ["z", 9], ["y", 9]), "zzzy");
  });

  test("running and waiting tasks are counted by type, waiting tasks up to a limit", async (t) => {
    const { store } = await open(t);
    const accounts = await Promise.all(["a", "b"].map((login) => seedAccount(store, login)));
    const of = (type: string, startAt: number | null = null) => newTask({ type, startAt });
    for (const [place, accountId] of accounts.entries()) {
      const tasks = [of("x"), of("x"), of("x"), of("y"), of("x", T0 + 9000)];
      await store.insertTasks(newPost(accountId, tasks, { createdAt: T0 - 10 * place }));
    }
    await store.claimTasks({ type: "x", max: 2, now: T0 });
    const list = (waitingMax: number) =>
      store.listTypeWork({ types: ["y", "none", "x"], waitingMax });

    const [y, none, x] = await list(4);

    const idle = { running: 0, waiting: 0, isMoreWaiting: false, oldestAt: null };
    assert.deepEqual(none, { type: "none", ...idle });
    assert.deepEqual(y, { ...idle, type: "y", waiting: 2, oldestAt: T0 - 10 });
    assert.deepEqual(x, { ...idle, type: "x", running: 2, waiting: 4, oldestAt: T0 - 10 });
    assert.deepEqual((await list(3))[2], { ...x, waiting: 3, isMoreWaiting: true });
    assert.deepEqual((await list(2))[0], y);
    assert.deepEqual(await store.listTypeWork({ types: [], waitingMax: 1 }), []);
  });
}

export function exerciseHolds(open: OpenStore): void {
  exerciseHeldClaims(open);
  exerciseHeldLeases(open);
  exerciseHoldChanges(open);
}

function exerciseHeldClaims(open: OpenStore): void {
  test("tasks of an account that another process disabled are claimed after it is enabled", async (t) => {
    const { store, again } = await open(t);
    const other = await again();
    const [ada, bob] = [await seedAccount(store, "ada"), await seedAccount(store, "bob")];
    const workerId = await seedWorker(store);
    const [held, also, free] = [newTask(), newTask({ type: "scan" }), newTask()];
    await store.insertTasks(newPost(ada, [held, also]));
    await store.insertTasks(newPost(bob, [free]));
    await disable(other, "ada");

    const claimed = await store.claimTasks({ type: "echo", max: 9, now: T0 });
    const leased = await store.claimLeases(newLeaseClaim(workerId));

    assert.deepEqual(pluck(claimed, "id"), [free.id]);
    assert.deepEqual(leased, []);
    assert.equal(await store.findOldestQueued(["echo", "scan"]), null);
    assert.equal(await store.findOldestWaiting(null), null);
    await enable(other, "ada");
    assert.equal((await claimOne(store)).id, held.id);
    assert.equal((await claimOne(store, "scan")).id, also.id);
  });

  test("claims skip disabled accounts and keep the turns of all others", async (t) => {
    const { store } = await open(t);
    const logins = [..."abcdefgh"];
    const accounts: number[] = [];
    for (const login of logins) accounts.push(await seedAccount(store, login));
    let after = 0;

    const sizes = fc.array(fc.nat(4), { minLength: 8, maxLength: 8 });
    const holds = fc.array(fc.boolean(), { minLength: 8, maxLength: 8 });
    const claims = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 4 });
    const property = fc.asyncProperty(sizes, holds, claims, async (lengths, isHeld, orders) => {
      const queues = new Map<number, string[]>();
      for (const [place, accountId] of accounts.entries()) {
        const tasks = Array.from({ length: lengths[place] ?? 0 }, () => newTask());
        if (tasks.length > 0) await store.insertTasks(newPost(accountId, tasks));
        const ids = pluck(tasks, "id");
        queues.set(accountId, ids);
        const login = logins[place] ?? "";
        await (isHeld[place] === true ? disable(store, login) : enable(store, login));
      }
      const free = new Map([...queues].filter((_, place) => isHeld[place] !== true));
      const claimAs = async (of: Map<number, string[]>, max: number): Promise<void> => {
        const claimed = await store.claimTasks({ type: "echo", max, now: T0 });
        assert.deepEqual(pluck(claimed, "id"), takeTurns(of, max, after));
        after = claimed.at(-1)?.accountId ?? after;
      };
      for (const max of [...orders, 100]) await claimAs(free, max);
      for (const login of logins) await enable(store, login);
      await claimAs(queues, 100);
    });
    await fc.assert(property, { numRuns: 25, seed: 12 });
  });

  test("a task that starts with its post is running, counted and never queued", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const tasks = [
      newTask(),
      newTask({ postback: webhook("a.example") }),
      newTask({ inputText: "[7]" }),
    ];
    const [waiting, finished, lost] = tasks.map(({ id }) => id) as [string, string, string];
    const starting = new Set([finished, lost]);
    const taskCounts = async () =>
      (await store.findAccountData({ accountId, revokedMax: 0 }))?.taskCounts;

    const outcome = await store.insertTasks(newPost(accountId, tasks, { starting }));

    assert.equal(outcome.kind, "inserted");
    const [first = 0, second = 0, ...others] =
      (outcome.kind === "inserted" && outcome.started) || [];
    assert.deepEqual(others, []);
    const found = (await store.findTask({ accountId, id: lost }))?.task;
    const shown = [found?.state, found?.statusCode, found?.startedAt, found?.runs];
    assert.deepEqual(shown, ["running", 40601, T0, 1]);
    const { queued, running } = (await taskCounts()) ?? assert.fail();
    assert.deepEqual([queued, running], [1, 2]);
    assert.deepEqual(pluck(await store.claimTasks({ type: "echo", max: 9, now: T0 }), "id"), [
      waiting,
    ]);
    const lanes = await store.finishTask(newFinish({ seq: first }, { id: finished, run: 1 }));
    assert.equal(lanes?.length, 1);
    assert.equal(await store.requeueTasks({ seq: second, id: lost, run: 1 }), 1);
    const again = await claimOne(store);
    assert.deepEqual([again.id, again.runs, again.inputText], [lost, 2, "[7]"]);
  });

  test("no task of a disabled account starts with its post", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    await store.setAccountDisabled({ login: "ada", disabledAt: T0 });
    const task = newTask();

    const post = newPost(accountId, [task], { starting: new Set([task.id]) });

    assert.deepEqual(await store.insertTasks(post), { kind: "inserted" });
    assert.equal((await store.findTask({ accountId, id: task.id }))?.task.state, "queued");
  });

  test("a released task is queued without its run, and a release of a queued task has no effect", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const task = await postTask(store, accountId);
    const { seq } = await claimOne(store);

    await store.releaseTask({ seq });
    await store.releaseTask({ seq });

    const found = (await store.findTask({ accountId, id: task.id }))?.task;
    assert.deepEqual([found?.state, found?.runs, found?.startedAt], ["queued", 0, null]);
    const again = await claimOne(store);
    assert.deepEqual([again.id, again.runs], [task.id, 1]);
    await store.finishTask(newFinish(again));
    await store.releaseTask({ seq });
    assert.equal((await store.findTask({ accountId, id: task.id }))?.task.state, "completed");
    assert.equal((await store.findAccountData({ accountId, revokedMax: 0 }))?.taskCounts.queued, 0);
  });

  test("an order of a disabled account is not open, an order for all accounts is", async (t) => {
    const { store } = await open(t);
    await seedAccount(store, "ada");
    const own = newOrder({ filter: deliveryFilter({ login: "ada" }) });
    const all = newOrder();
    await placeOrder(store, own);
    await placeOrder(store, all);
    const openIds = async (): Promise<readonly string[]> =>
      pluck(await store.listOpenRedeliveryOrders({ limit: 9 }), "id");
    await disable(store, "ada");
    assert.deepEqual(await openIds(), [all.id]);
    await enable(store, "ada");
    assert.deepEqual(await openIds(), [own.id, all.id]);
  });
}

function exerciseHeldLeases(open: OpenStore): void {
  async function leased(store: Store) {
    const [accountId, workerId] = [await seedAccount(store), await seedWorker(store)];
    const task = await postTask(store, accountId, { postback: webhook("a.example") });
    const lease = await leaseOne(store, workerId);
    const found = async () => (await store.findTask({ accountId, id: task.id }))?.task;
    const beat = async (now = T0 + 1000) =>
      (await store.extendLeases({ leases: [lease], workerId, now }))[0];
    return { lease, workerId, found, beat };
  }

  test("a heartbeat for a disabled account ends the lease without counting the run", async (t) => {
    const { store } = await open(t);
    const { found, beat, workerId } = await leased(store);
    await disable(store, "ada");
    await enable(store, "ada");
    assert.deepEqual([await beat(), (await found())?.state], ["ok", "running"]);
    await disable(store, "ada");
    assert.equal(await beat(), "suspended");
    assert.deepEqual([(await found())?.state, (await found())?.runs], ["queued", 0]);
    assert.equal(await beat(), "lost");
    await enable(store, "ada");
    assert.equal(await beat(), "lost");
    assert.deepEqual([(await leaseOne(store, workerId)).runs, (await found())?.runs], [1, 1]);
  });

  test("an expired lease is not revived while its account is disabled", async (t) => {
    const { store } = await open(t);
    const { lease, found, beat } = await leased(store);
    const at = T0 + LEASE_MS;
    const sequel = { kind: "requeue", isRunCounted: true } as const;
    await endLease(store, newLeaseEnd(lease, { how: "expired", sequel }), at);
    await disable(store, "ada");
    assert.equal(await beat(at + 1), "lost");
    assert.equal((await found())?.state, "queued");
    await enable(store, "ada");
    assert.equal(await beat(at + 2), "ok");
    assert.equal((await found())?.state, "running");
  });

  test("a result after the ending heartbeat counts until the task is claimed again", async (t) => {
    const { store } = await open(t);
    const { lease, found, beat } = await leased(store);
    await disable(store, "ada");
    assert.equal(await beat(), "suspended");

    const failed = await endLease(store, newLeaseEnd(lease, { how: "failed" }));
    const completed = await endLease(store, newLeaseEnd(lease));
    const again = await endLease(store, newLeaseEnd(lease));

    assert.equal(failed.outcome, "lost");
    assert.deepEqual(completed, {
      outcome: "ok",
      isNew: true,
      lanes: [{ accountId: 1, host: "a.example" }],
    });
    assert.deepEqual(again, { outcome: "ok", isNew: false, lanes: [] });
    assert.deepEqual([(await found())?.state, (await found())?.runs], ["completed", 1]);
  });

  test("a result after a new claim is lost", async (t) => {
    const { store } = await open(t);
    const { lease, beat, workerId } = await leased(store);
    await disable(store, "ada");
    assert.equal(await beat(), "suspended");
    await enable(store, "ada");
    await leaseOne(store, workerId);
    assert.equal((await endLease(store, newLeaseEnd(lease))).outcome, "lost");
  });
}

function exerciseHoldChanges(open: OpenStore): void {
  test("accounts disabled or enabled since a change are listed once each", async (t) => {
    const { store, again } = await open(t);
    const other = await again();
    const [ada, bob] = [await seedAccount(store, "ada"), await seedAccount(store, "bob")];
    assert.deepEqual(await store.listSuspensionChanges({ after: 0 }), { accounts: [], last: 0 });

    await disable(other, "ada");
    await disable(store, "bob");
    await enable(store, "bob");
    const first = await store.listSuspensionChanges({ after: 0 });
    // No state changes here.
    await disable(store, "ada");
    await enable(store, "bob");
    const second = await store.listSuspensionChanges({ after: first.last });
    await enable(other, "ada");
    const third = await store.listSuspensionChanges({ after: second.last });

    assert.deepEqual(first.accounts, [
      { accountId: ada, isDisabled: true },
      { accountId: bob, isDisabled: false },
    ]);
    assert.deepEqual(second, { accounts: [], last: first.last });
    assert.deepEqual(third.accounts, [{ accountId: ada, isDisabled: false }]);
  });

  test("suspended work counts waiting, delayed and running tasks and webhooks", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    await seedDelivery(store, ada);
    await seedDelivery(store, bob);
    const later = newTask({ startAt: T0 + 1000 });
    await store.insertTasks(newPost(ada, [newTask(), newTask({ type: "scan" }), later]));
    await claimOne(store, "scan");
    const held = await store.findSuspendedWork({ accountId: ada });
    assert.deepEqual(held, { queued: 2, running: 1, webhooks: 1 });
  });
}

async function disable(store: Store, login: string): Promise<void> {
  await store.setAccountDisabled({ login, disabledAt: T0 });
}

async function enable(store: Store, login: string): Promise<void> {
  await store.setAccountDisabled({ login, disabledAt: null });
}

/** The ids that a claim takes from the queues, one of each account in turn. */
function takeTurns(queues: Map<number, string[]>, max: number, after: number): readonly string[] {
  const taken: string[] = [];
  const ids = [...queues.keys()].sort((a, b) => a - b);
  const order = [...ids.filter((id) => id > after), ...ids.filter((id) => id <= after)];
  for (let idle = 0, turn = 0; taken.length < max && idle < order.length; turn++) {
    const next = queues.get(order[turn % order.length] ?? 0)?.shift();
    idle = next === undefined ? idle + 1 : 0;
    if (next !== undefined) taken.push(next);
  }
  return taken;
}
