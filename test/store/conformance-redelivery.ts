import assert from "node:assert/strict";
import { test } from "node:test";

import type { NewTask } from "../../src/domain/task/task.ts";
import type { DeliveryFilter } from "../../src/domain/webhook/delivery.ts";
import type { RedeliveryOrder, RedeliveryStep, Store } from "../../src/store/store.ts";
import {
  deliveryFilter,
  endDue,
  ENDED_AT,
  newOrder,
  ORDERED_AT,
  placeOrder,
  seedDue,
  seedEnded,
} from "../helpers/delivery.ts";
import {
  postTask,
  claimAttempt,
  claimLanes,
  claimOne,
  newAttemptRecord,
  newFinish,
  newStale,
  newTaskId,
  RETENTION_MS,
  T0,
  webhook,
  pluck,
  withAccount,
  withAccounts,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

const NOW = ORDERED_AT + 1000;
const ABC = ["a.example", "b.example", "c.example"];

/** Steps through an order to its end. */
async function workOff(store: Store, id: string, max = 100): Promise<readonly RedeliveryStep[]> {
  const steps: RedeliveryStep[] = [];
  do steps.push(await store.stepRedeliveryOrder({ id, max, now: NOW }));
  while (steps.at(-1)?.isDone === false && steps.length < 1000);
  assert.equal(steps.at(-1)?.isDone, true, "the order has no end");
  return steps;
}

/** The oldest order that is not worked off. */
async function firstOpen(store: Store): Promise<RedeliveryOrder | null> {
  return (await store.listOpenRedeliveryOrders({ limit: 1 }))[0] ?? null;
}

function sum(steps: readonly RedeliveryStep[]): number {
  return steps.reduce((total, { redelivered }) => total + redelivered, 0);
}

/** Each task's attempts: when they are due. */
async function dues(
  store: Store,
  tasks: readonly NewTask[],
): Promise<readonly (readonly number[])[]> {
  const found = await Promise.all(tasks.map(({ id }) => store.findTaskDeliveries(id)));
  return found.map((task) =>
    (task?.deliveries ?? []).flatMap(({ attempts }) => pluck(attempts, "dueAt")),
  );
}

/** Which of the deliveries of {@link seedThreeKinds} pass a filter: how many. */
const COUNTED: readonly (readonly [Partial<DeliveryFilter>, number])[] = [
  [{}, 8],
  [{ login: "bob" }, 3],
  [{ taskId: "both", kind: "pingback" }, 1],
  [{ taskId: newTaskId() }, 0],
  [{ states: ["given_up", "refused"], host: "a.example" }, 2],
  [{ states: ["scheduled", "in_flight"] }, 0],
  [{ outcome: "timed_out", until: ENDED_AT + 1 }, 3],
  [{ since: ENDED_AT }, 5],
];

/** A task of ada with two delivered webhooks, three given up of bob, three refused of ada; returns the id of the first. */
async function seedThreeKinds(
  store: Store,
  { ada, bob }: { readonly ada: number; readonly bob: number },
): Promise<string> {
  const hooks = { postback: webhook("a.example"), pingback: webhook("b.example") };
  const both = await postTask(store, ada, hooks);
  await store.finishTask(newFinish(await claimOne(store)));
  await endDue(store, ["a.example", "b.example"], { state: "delivered" });
  await seedEnded(store, bob, { hosts: ABC, result: { outcome: "timed_out" } });
  await seedEnded(store, ada, { hosts: ABC, state: "refused", endedAt: ENDED_AT - 1 });
  return both.id;
}

export function exerciseOrders(open: OpenStore): void {
  test("the list of orders has the newest first, and the oldest open order is the next", async (t) => {
    const { store, again } = await open(t);
    assert.equal(await firstOpen(store), null);
    const filter = deliveryFilter({
      ...{ login: "ada", taskId: "x", kind: "pingback", host: `"a'b`, states: ["given_up"] },
      ...{ outcome: "timed_out", since: 1, until: 2 },
    });
    const given = [newOrder({ filter, perSecond: 7, createdAt: T0 }), newOrder(), newOrder()];
    const kept = [];
    for (const order of given) kept.push(await placeOrder(store, order));

    const fresh = { redelivered: 0, endedAt: null, isCancelled: false };
    const expected = given.map((order) => ({ ...order, ...fresh }));
    assert.deepEqual(kept, expected);
    const list = (limit: number) => store.listRedeliveryOrders({ login: null, limit });
    assert.deepEqual(await list(9), expected.toReversed());
    assert.deepEqual(await list(1), [expected[2]]);
    const first = given[0]?.id ?? "";
    assert.deepEqual(await store.findRedeliveryOrder(first), expected[0]);
    assert.equal(await store.findRedeliveryOrder(newTaskId()), null);
    await store.close();
    const reopened = await again();
    assert.deepEqual(await firstOpen(reopened), expected[0]);
    await workOff(reopened, first);
    assert.deepEqual(await firstOpen(reopened), expected[1]);
  });

  test("an order begins a first attempt, due immediately, for each ended delivery and no other", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const ended = [];
    for (const state of ["delivered", "given_up", "refused"] as const) {
      ended.push(...(await seedEnded(store, accountId, { hosts: ["a.example"], state })));
    }
    ended.push(...(await seedEnded(store, accountId, { hosts: ["b.example"] })));
    const hosts = ["retry.example", "flight.example", "due.example"];
    const others = [...(await seedDue(store, accountId, hosts))];
    await store.recordAttempt(newAttemptRecord(await claimAttempt(store, "retry.example")));
    await claimAttempt(store, "flight.example");
    others.push(await postTask(store, accountId, { postback: webhook("waiting.example") }));
    const before = await dues(store, others);
    const order = newOrder();
    await placeOrder(store, order);

    const step = await store.stepRedeliveryOrder({ id: order.id, max: 100, now: NOW });

    assert.deepEqual(new Set(pluck(step.lanes, "host")), new Set(["a.example", "b.example"]));
    assert.deepEqual([step.redelivered, step.isDone], [4, true]);
    const expected = ended.map(() => [T0 + 1000, NOW]);
    assert.deepEqual(await dues(store, ended), expected);
    assert.deepEqual(await dues(store, others), before);
    const [shown] = await store.listRedeliveryOrders({ login: null, limit: 1 });
    assert.deepEqual(shown, { ...order, redelivered: 4, endedAt: NOW, isCancelled: false });
    assert.equal(await firstOpen(store), null);
    const again = await claimLanes(store, ["a.example", "b.example"], { now: NOW });
    assert.deepEqual(pluck(again, "number", "retry"), Array(4).fill([1, 0]));
  });

  test("a step continues after the last one, also after a restart, up to its limit", async (t) => {
    const { store, again, accountId } = await withAccount(open(t));
    const hosts = Array.from({ length: 7 }, (_, i) => `${i}.example`);
    const tasks = await seedEnded(store, accountId, { hosts });
    const order = newOrder();
    await placeOrder(store, order);
    for (const max of [0, -1, -100]) {
      const none = await store.stepRedeliveryOrder({ id: order.id, max, now: NOW });
      assert.deepEqual(none, { lanes: [], redelivered: 0, isDone: false });
    }

    const first = await store.stepRedeliveryOrder({ id: order.id, max: 3, now: NOW });
    const lanes = hosts.slice(0, 3).map((host) => ({ accountId, host }));
    assert.deepEqual(first, { lanes, redelivered: 3, isDone: false });
    assert.equal((await firstOpen(store))?.redelivered, 3);
    // A delivery that was sent again and has ended is not sent a second time.
    await endDue(store, hosts.slice(0, 3), { endedAt: NOW + 1, now: NOW });
    await store.close();
    const reopened = await again();
    const steps = [first, ...(await workOff(reopened, order.id, 3))];

    assert.equal(sum(steps), 7);
    assert(steps.every(({ redelivered }) => redelivered <= 3));
    const expected = tasks.map(() => [T0 + 1000, NOW]);
    assert.deepEqual(await dues(reopened, tasks), expected);
  });

  test("an order reads a long log in several steps, and the log of one task in one step", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const hosts = Array.from({ length: 2100 }, () => "many.example");
    await seedEnded(store, accountId, { hosts });
    const [rare = assert.fail()] = await seedEnded(store, accountId, { hosts: ["rare.example"] });
    const byHost = newOrder({ filter: deliveryFilter({ host: "rare.example" }) });
    await placeOrder(store, byHost);

    const steps = await workOff(store, byHost.id);

    assert(steps.length > 1, "one step has read the whole log");
    assert.deepEqual([steps[0]?.redelivered, sum(steps)], [0, 1]);
    await endDue(store, ["rare.example"], { endedAt: NOW, now: NOW });
    const filter = deliveryFilter({ taskId: rare.id });
    const byTask = newOrder({ filter, createdAt: NOW });
    await placeOrder(store, byTask);
    const lanes = [{ accountId, host: "rare.example" }];
    assert.deepEqual(await workOff(store, byTask.id), [{ lanes, redelivered: 1, isDone: true }]);
  });

  test("deliveries that ended, were made or were sent again after the order are left out", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const seed = async (host: string, at: Parameters<typeof endDue>[2]) =>
      (await seedEnded(store, accountId, { hosts: [host], ...at }))[0] ?? assert.fail();
    const last = await seed("a.example", { endedAt: ORDERED_AT });
    const [flying = assert.fail()] = await seedDue(store, accountId, ["flying.example"]);
    const again = await seed("again.example", {});
    const order = newOrder();
    await placeOrder(store, order);
    const late = { endedAt: ORDERED_AT + 1, now: ORDERED_AT };
    await endDue(store, ["flying.example"], late);
    const made = await seed("made.example", late);
    await store.redeliver({ accountId, id: again.id, kind: null, states: null, now: ORDERED_AT });
    await endDue(store, ["again.example"], late);

    assert.equal(sum(await workOff(store, order.id)), 1);

    const first = T0 + 1000;
    const expected = [[first, NOW], [first], [first], [first, ORDERED_AT]];
    assert.deepEqual(await dues(store, [last, flying, made, again]), expected);
  });

  test("an order sends as many deliveries again as a count by its filter", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    for (const [overrides, deliveries] of COUNTED) {
      const both = await seedThreeKinds(store, { ada, bob });
      const taskId = overrides.taskId === "both" ? both : (overrides.taskId ?? null);
      const filter = deliveryFilter({ ...overrides, taskId });
      const count = await store.countEndedDeliveries(filter);
      const order = newOrder({ filter });
      await placeOrder(store, order);

      const steps = await workOff(store, order.id, 2);

      const name = JSON.stringify(overrides);
      assert.deepEqual([count.deliveries, sum(steps)], [deliveries, deliveries], name);
      // No ended delivery is left for the next filter.
      const rest = newOrder();
      await placeOrder(store, rest);
      await workOff(store, rest.id);
    }
  });

  test("an order for one task makes its scheduled attempt due, unless it names states", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const [task = assert.fail()] = await seedDue(store, accountId, ["retry.example"]);
    await store.recordAttempt(newAttemptRecord(await claimAttempt(store, "retry.example")));
    const now = ORDERED_AT;
    const states = ["given_up"] as const;
    const named = newOrder({ filter: deliveryFilter({ taskId: task.id, states }) });
    const whole = newOrder({ filter: deliveryFilter({ taskId: task.id }) });
    for (const order of [named, whole]) await placeOrder(store, order);

    const step = { max: 100, now };
    assert.equal((await store.stepRedeliveryOrder({ ...step, id: named.id })).redelivered, 0);
    const { lanes, redelivered } = await store.stepRedeliveryOrder({ ...step, id: whole.id });

    assert.deepEqual([lanes, redelivered], [[{ accountId, host: "retry.example" }], 1]);
    assert.deepEqual(await dues(store, [task]), [[T0 + 1000, now]]);
    const { number, retry } = await claimAttempt(store, "retry.example", now);
    assert.deepEqual([number, retry], [2, 1]);
  });

  test("a cancelled order begins no more attempts and keeps the time of its cancel", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const tasks = await seedEnded(store, accountId, { hosts: ABC });
    const [order, next] = [newOrder(), newOrder({ filter: deliveryFilter({ host: "none" }) })];
    await placeOrder(store, order);
    await placeOrder(store, next);
    await store.stepRedeliveryOrder({ id: order.id, max: 1, now: NOW });
    const cancel = (id: string, now: number) =>
      store.cancelRedeliveryOrder({ id, login: null, now });

    const expected = { ...order, redelivered: 1, endedAt: NOW + 1, isCancelled: true };
    assert.deepEqual(await cancel(order.id, NOW + 1), expected);
    assert.equal((await firstOpen(store))?.id, next.id);
    for (const id of [order.id, newTaskId()]) {
      const step = await store.stepRedeliveryOrder({ id, max: 9, now: NOW + 2 });
      assert.deepEqual(step, { lanes: [], redelivered: 0, isDone: true });
    }
    assert.equal((await dues(store, tasks)).flat().length, 4);
    assert.deepEqual(await cancel(order.id, NOW + 9), expected);
    await workOff(store, next.id);
    const ended = await cancel(next.id, NOW + 9);
    assert.deepEqual([ended?.endedAt, ended?.isCancelled], [NOW, false]);
    assert.equal(await cancel("%", NOW), null);
  });

  test("20 concurrent steps begin one first attempt of each delivery", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const hosts = Array.from({ length: 30 }, (_, i) => `${i % 4}.example`);
    const tasks = await seedEnded(store, accountId, { hosts });
    const order = newOrder();
    await placeOrder(store, order);

    const step = { id: order.id, max: 2, now: NOW };
    const all = Array.from({ length: 20 }, () => store.stepRedeliveryOrder(step));
    assert.equal(sum(await Promise.all(all)), 30);
    const expected = tasks.map(() => [T0 + 1000, NOW]);
    assert.deepEqual(await dues(store, tasks), expected);
  });

  // The seq of an erased attempt is used again.
  test("attempts with the seq of erased attempts are not of an earlier order", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    await seedEnded(store, accountId, { hosts: ABC });
    const order = newOrder();
    await placeOrder(store, order);
    while ((await store.eraseExpired({ now: T0 + 2 * RETENTION_MS, max: 10 })).looked > 0) continue;
    const late = { endedAt: ORDERED_AT + 1, now: ORDERED_AT };
    await seedEnded(store, accountId, { hosts: ABC, ...late });

    assert.equal(sum(await workOff(store, order.id)), 0);
  });

  test("the limit of open orders is per login", async (t) => {
    const { store } = await open(t);
    const place = async (login: string | null, openMax: number | null) => {
      const filter = deliveryFilter({ login });
      const placed = await store.orderRedelivery({ ...newOrder({ filter }), openMax });
      return placed === "busy" ? "busy" : "placed";
    };

    assert.deepEqual(
      [await place("alice", 1), await place("alice", 1), await place("bob", 1)],
      ["placed", "busy", "placed"],
    );
    assert.deepEqual(
      [await place(null, null), await place("alice", null), await place("alice", 2)],
      ["placed", "placed", "busy"],
    );
    const both = await Promise.all([place("carol", 1), place("carol", 1), place("carol", 1)]);
    assert.deepEqual(both.toSorted(), ["busy", "busy", "placed"]);
    assert.equal((await store.listOpenRedeliveryOrders({ limit: 99 })).length, 5);
  });

  test("a login lists and cancels only orders whose filter names it", async (t) => {
    const { store } = await open(t);
    const logins = ["alice", null, "bob", "alice", "alice'", "%"];
    const orders = logins.map((login) => newOrder({ filter: deliveryFilter({ login }) }));
    for (const order of orders) await placeOrder(store, order);
    const listed = async (login: string | null) =>
      pluck(await store.listRedeliveryOrders({ login, limit: 9 }), "id");

    assert.deepEqual(await listed("alice"), [orders[3]?.id, orders[0]?.id]);
    assert.deepEqual(await listed("nobody"), []);
    assert.deepEqual(await listed(null), pluck(orders, "id").toReversed());
    for (const { id, filter } of orders) {
      const login = filter.login === "bob" ? "alice" : "bob";
      assert.equal(await store.cancelRedeliveryOrder({ id, login, now: NOW }), null);
    }
    assert.equal((await store.listOpenRedeliveryOrders({ limit: 9 })).length, orders.length);
    const [{ id } = assert.fail()] = orders;
    const cancelled = await store.cancelRedeliveryOrder({ id, login: "alice", now: NOW });
    assert.equal(cancelled?.isCancelled, true);
  });

  test("ended orders are erased after their time, open orders are not", async (t) => {
    const { store } = await open(t);
    const [early, late, kept] = [newOrder(), newOrder(), newOrder()];
    for (const order of [early, late, kept]) await placeOrder(store, order);
    for (const [i, { id }] of [early, late].entries()) {
      await store.cancelRedeliveryOrder({ id, login: null, now: NOW + i });
    }
    const erase = (decidedBefore: number) => store.eraseStale(newStale({ decidedBefore, max: 1 }));

    assert.deepEqual([await erase(NOW), await erase(NOW + 2)], [0, 1]);
    const left = await store.listRedeliveryOrders({ login: null, limit: 9 });
    assert.deepEqual(pluck(left, "id"), [kept.id, late.id]);
    const ever = Number.MAX_SAFE_INTEGER;
    assert.deepEqual([await erase(ever), await erase(ever)], [1, 0]);
    assert.equal((await firstOpen(store))?.id, kept.id);
  });
}

export function exerciseShift(open: OpenStore): void {
  test("a clock step moves later scheduled times and no others", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const [flying] = await seedDue(store, accountId, ["flying.example"]);
    await claimAttempt(store, "flying.example");
    const ended = await seedEnded(store, accountId, { hosts: ["ended.example"] });
    const due = await seedDue(store, accountId, ["due.example"]);
    const [retried] = await seedDue(store, accountId, ["retried.example"]);
    assert(flying !== undefined && retried !== undefined);
    const decision = { state: "scheduled", dueAt: T0 + 62_000, retry: 1 } as const;
    const attempt = await claimAttempt(store, "retried.example");
    await store.recordAttempt(newAttemptRecord(attempt, { decision }));
    const all = [flying, ...ended, ...due, retried];
    const read = () => dues(store, all);
    const [was] = [await read()];

    assert.equal(await store.shiftTimes({ after: T0 + 1000, by: 3_600_000 }), 1);
    assert.deepEqual(await read(), was.with(3, [T0 + 1000, T0 + 3_662_000]));
    assert.equal(await store.shiftTimes({ after: T0 + 1000, by: -3_600_000.4 }), 1);
    assert.deepEqual(await read(), was);
    // Times later than `after`, not equal to it.
    assert.equal(await store.shiftTimes({ after: T0 + 999, by: -10_000_000 }), 2);
    assert.deepEqual(
      await read(),
      was.with(2, [T0 - 9_999_000]).with(3, [T0 + 1000, T0 - 9_938_000]),
    );
    assert.deepEqual(
      (await claimLanes(store, ["retried.example", "due.example"], { now: T0 })).length,
      2,
    );
    assert.equal(await store.shiftTimes({ after: 0, by: 1 }), 0);
  });

  test("attempts due later than the latest allowed time become due, no others", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const [fresh] = await seedDue(store, accountId, ["fresh.example"]);
    const [retried] = await seedDue(store, accountId, ["retried.example"]);
    assert(fresh !== undefined && retried !== undefined);
    const attempt = await claimAttempt(store, "retried.example");
    const decision = { state: "scheduled", dueAt: T0 + 62_000, retry: 1 } as const;
    await store.recordAttempt(newAttemptRecord(attempt, { decision }));
    const read = () => dues(store, [fresh, retried]);
    const [was] = [await read()];

    assert.equal(await store.hastenAttempts({ now: T0 + 1000, latest: T0 + 62_000 }), 0);
    assert.deepEqual(await read(), was);
    assert.equal(await store.hastenAttempts({ now: T0 + 1000, latest: T0 + 61_999 }), 1);
    assert.deepEqual(await read(), was.with(1, [T0 + 1000, T0 + 61_999]));
    assert.equal(await store.hastenAttempts({ now: T0 + 999, latest: T0 + 61_999 }), 1);
    assert.deepEqual(await read(), [[T0 + 999], [T0 + 1000, T0 + 61_999]]);
  });
}
