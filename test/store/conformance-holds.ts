import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import type { Store } from "../../src/store/store.ts";
import { deliveryFilter, newOrder, placeOrder } from "../helpers/delivery.ts";
import {
  claimOne,
  endLease,
  leaseOne,
  LEASE_MS,
  newFinish,
  newLeaseClaim,
  newLeaseEnd,
  newPost,
  newTask,
  seedAccount,
  seedDelivery,
  seedWorker,
  T0,
  webhook,
  pluck,
  withAccount,
  withAccounts,
  postTask,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

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

    assert.equal(await beat(), "suspended");

    assert.deepEqual([(await found())?.state, (await found())?.runs], ["queued", 0]);
    assert.equal(await beat(), "lost");
    await enable(store, "ada");
    assert.equal(await beat(), "lost");
    assert.deepEqual([(await leaseOne(store, workerId)).runs, (await found())?.runs], [1, 1]);
  });

  test("a lease continues if its account is enabled before the next heartbeat", async (t) => {
    const { store } = await open(t);
    const { found, beat } = await leased(store);
    await disable(store, "ada");
    await enable(store, "ada");

    assert.equal(await beat(), "ok");
    assert.equal((await found())?.state, "running");
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
