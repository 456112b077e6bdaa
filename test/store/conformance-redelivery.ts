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
  claimAttempt,
  claimLanes,
  claimOne,
  newAttemptRecord,
  newFinish,
  newPost,
  newStale,
  newTask,
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
  [{ login: "Bob" }, 0],
  [{ taskId: "both" }, 2],
  [{ taskId: "both", kind: "pingback" }, 1],
  [{ taskId: newTaskId() }, 0],
  [{ host: "c.example" }, 2],
  [{ states: ["given_up", "refused"], host: "a.example" }, 2],
  [{ states: ["scheduled", "in_flight"] }, 0],
  [{ states: [] }, 0],
  [{ outcome: "timed_out", until: ENDED_AT + 1 }, 3],
  [{ since: ENDED_AT }, 5],
  [{ until: ENDED_AT }, 3],
];

/** A task of ada with both webhooks delivered, three given up of bob, three of ada refused; answers the first's id. */
async function seedThreeKinds(
  store: Store,
  { ada, bob }: { readonly ada: number; readonly bob: number },
): Promise<string> {
  const both = newTask({ postback: webhook("a.example"), pingback: webhook("b.example") });
  await store.insertTasks(newPost(ada, [both]));
  await store.finishTask(newFinish(await claimOne(store)));
  await endDue(store, ["a.example", "b.example"], { state: "delivered" });
  await seedEnded(store, bob, { hosts: ABC, result: { outcome: "timed_out" } });
  await seedEnded(store, ada, { hosts: ABC, state: "refused", endedAt: ENDED_AT - 1 });
  return both.id;
}

/** The part of the conformance suite that is about orders to send many deliveries again. */
export function exerciseOrders(open: OpenStore): void {
  test("keeps orders, the newest first in the list, the oldest first to work on", async (t) => {
    const { store, again } = await open(t);
    assert.equal(await firstOpen(store), null);
    const filter = deliveryFilter({
      ...{ login: "ada", taskId: "x", kind: "pingback", host: `"a'b`, states: ["given_up"] },
      ...{ outcome: "timed_out", since: 1, until: 2 },
    });
    const given = [newOrder({ filter, perSecond: 7, createdAt: T0 }), newOrder(), newOrder()];
    const kept = [];
    for (const order of given) kept.push(await placeOrder(store, order));

    const expected = given.map((order) => ({
      ...order,
      ...{ redelivered: 0, endedAt: null, isCancelled: false },
    }));
    assert.deepEqual(kept, expected);
    assert.deepEqual(
      await store.listRedeliveryOrders({ login: null, limit: 9 }),
      expected.toReversed(),
    );
    assert.deepEqual(await store.listRedeliveryOrders({ login: null, limit: 1 }), [expected[2]]);
    assert.deepEqual(await store.findRedeliveryOrder(given[0]?.id ?? ""), expected[0]);
    assert.equal(await store.findRedeliveryOrder(newTaskId()), null);
    assert.deepEqual(await firstOpen(store), expected[0]);
    await store.close();
    const reopened = await again();
    assert.deepEqual(await firstOpen(reopened), expected[0]);
    await workOff(reopened, given[0]?.id ?? "");
    assert.deepEqual(await firstOpen(reopened), expected[1]);
  });

  test("begins a fresh series, due at once, for whatever has ended, and for nothing else", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const ended = [];
    for (const state of ["delivered", "given_up", "refused"] as const) {
      ended.push(...(await seedEnded(store, accountId, { hosts: ["a.example"], state })));
    }
    ended.push(...(await seedEnded(store, accountId, { hosts: ["b.example"] })));
    const others = await seedDue(store, accountId, [
      "retry.example",
      "flight.example",
      "due.example",
    ]);
    await store.recordAttempt(newAttemptRecord(await claimAttempt(store, "retry.example")));
    await claimAttempt(store, "flight.example");
    const waiting = newTask({ postback: webhook("waiting.example") });
    await store.insertTasks(newPost(accountId, [waiting]));
    const before = await dues(store, [...others, waiting]);
    const order = newOrder();
    await placeOrder(store, order);

    const step = await store.stepRedeliveryOrder({ id: order.id, max: 100, now: NOW });

    assert.deepEqual([...new Set(pluck(step.lanes, "host"))].sort(), ["a.example", "b.example"]);
    assert.deepEqual([step.redelivered, step.isDone], [4, true]);
    assert.deepEqual(
      await dues(store, ended),
      ended.map(() => [T0 + 1000, NOW]),
    );
    assert.deepEqual(await dues(store, [...others, waiting]), before);
    const [shown] = await store.listRedeliveryOrders({ login: null, limit: 1 });
    assert.deepEqual(shown, { ...order, redelivered: 4, endedAt: NOW, isCancelled: false });
    assert.equal(await firstOpen(store), null);
    const again = await claimLanes(store, ["a.example", "b.example"], { now: NOW });
    assert.deepEqual(
      pluck(again, "number", "retry"),
      ended.map(() => [1, 0]),
    );
  });

  test("goes on where the last step stopped, no more at a time than asked for", async (t) => {
    const { store, again, accountId } = await withAccount(open(t));
    const hosts = Array.from({ length: 7 }, (_, i) => `${i}.example`);
    const tasks = await seedEnded(store, accountId, { hosts });
    const order = newOrder();
    await placeOrder(store, order);
    const step = (from: Store) => from.stepRedeliveryOrder({ id: order.id, max: 3, now: NOW });

    const first = await step(store);
    assert.deepEqual(first, {
      lanes: hosts.slice(0, 3).map((host) => ({ accountId, host })),
      ...{ redelivered: 3, isDone: false },
    });
    assert.equal((await firstOpen(store))?.redelivered, 3);
    // What was sent again may end, and be sent again by its account, while the order goes on.
    await endDue(store, hosts.slice(0, 3), { endedAt: NOW + 1, now: NOW });
    await store.close();
    const reopened = await again();
    const steps = [first, ...(await workOff(reopened, order.id, 3))];

    assert.equal(sum(steps), 7);
    assert(steps.every(({ redelivered }) => redelivered <= 3));
    assert.deepEqual(
      await dues(reopened, tasks),
      tasks.map(() => [T0 + 1000, NOW]),
    );
  });

  test("looks at a long log in several steps, also when little of it passes", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const hosts = Array.from({ length: 2500 }, () => "many.example");
    await seedEnded(store, accountId, { hosts });
    const [rare] = await seedEnded(store, accountId, { hosts: ["rare.example"] });
    assert(rare !== undefined);
    const byHost = newOrder({ filter: deliveryFilter({ host: "rare.example" }) });
    await placeOrder(store, byHost);

    const steps = await workOff(store, byHost.id);

    assert(steps.length > 1, "one step looked at everything");
    assert.deepEqual([steps[0]?.redelivered, sum(steps)], [0, 1]);
    await endDue(store, ["rare.example"], { endedAt: NOW, now: NOW });
    // A task's own are found without looking at the others.
    const filter = deliveryFilter({ taskId: rare.id });
    const byTask = newOrder({ filter, createdAt: NOW });
    await placeOrder(store, byTask);
    const lanes = [{ accountId, host: "rare.example" }];
    const found = { lanes, redelivered: 1, isDone: true };
    assert.deepEqual(await workOff(store, byTask.id), [found]);
  });

  test("leaves out what ended, was made or was sent again after the order was given", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const [last] = await seedEnded(store, accountId, { hosts: ["a.example"], endedAt: ORDERED_AT });
    const [flying] = await seedDue(store, accountId, ["flying.example"]);
    const [again] = await seedEnded(store, accountId, { hosts: ["again.example"] });
    assert(last !== undefined && flying !== undefined && again !== undefined);
    const order = newOrder();
    await placeOrder(store, order);
    const late = { endedAt: ORDERED_AT + 1, now: ORDERED_AT };
    await endDue(store, ["flying.example"], late);
    const [made] = await seedEnded(store, accountId, { hosts: ["made.example"], ...late });
    assert(made !== undefined);
    await store.redeliver({ accountId, id: again.id, kind: null, states: null, now: ORDERED_AT });
    await endDue(store, ["again.example"], late);

    assert.equal(sum(await workOff(store, order.id)), 1);

    assert.deepEqual(await dues(store, [last, flying, made, again]), [
      [T0 + 1000, NOW],
      [T0 + 1000],
      [T0 + 1000],
      [T0 + 1000, ORDERED_AT],
    ]);
  });

  test("sends again what a count by the same filter has counted", async (t) => {
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
      // Nothing of it has ended any more for the next filter.
      const rest = newOrder();
      await placeOrder(store, rest);
      await workOff(store, rest.id);
    }
  });

  test("an order for one task makes its scheduled attempt due, unless it names states", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const [task] = await seedDue(store, accountId, ["retry.example"]);
    assert(task !== undefined);
    await store.recordAttempt(newAttemptRecord(await claimAttempt(store, "retry.example")));
    const [[first, retry] = []] = await dues(store, [task]);
    const now = ORDERED_AT;
    assert.ok(retry !== undefined && retry > now);
    const named = newOrder({
      filter: deliveryFilter({ taskId: task.id, states: ["given_up"] }),
    });
    const whole = newOrder({ filter: deliveryFilter({ taskId: task.id }) });
    for (const order of [named, whole]) await placeOrder(store, order);

    const step = { max: 100, now };
    assert.equal((await store.stepRedeliveryOrder({ ...step, id: named.id })).redelivered, 0);
    const { lanes, redelivered } = await store.stepRedeliveryOrder({ ...step, id: whole.id });

    assert.deepEqual([lanes, redelivered], [[{ accountId, host: "retry.example" }], 1]);
    assert.deepEqual(await dues(store, [task]), [[first, now]]);
    const [claimed] = await claimLanes(store, ["retry.example"], { now });
    assert.deepEqual([claimed?.number, claimed?.retry], [2, 1]);
  });

  test("begins nothing more of an order that was cancelled, and tells when it was", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const tasks = await seedEnded(store, accountId, { hosts: ABC });
    const [order, next] = [newOrder(), newOrder({ filter: deliveryFilter({ host: "none" }) })];
    await placeOrder(store, order);
    await placeOrder(store, next);
    await store.stepRedeliveryOrder({ id: order.id, max: 1, now: NOW });

    const cancelled = await store.cancelRedeliveryOrder({
      id: order.id,
      login: null,
      now: NOW + 1,
    });

    const expected = { ...order, redelivered: 1, endedAt: NOW + 1, isCancelled: true };
    assert.deepEqual(cancelled, expected);
    assert.equal((await firstOpen(store))?.id, next.id);
    const nothing = { lanes: [], redelivered: 0, isDone: true };
    const step = { max: 9, now: NOW + 2 };
    assert.deepEqual(await store.stepRedeliveryOrder({ ...step, id: order.id }), nothing);
    assert.deepEqual(await store.stepRedeliveryOrder({ ...step, id: newTaskId() }), nothing);
    assert.equal((await dues(store, tasks)).flat().length, 4);
    // Again keeps the first time; one that was worked off is not cancelled any more.
    assert.deepEqual(
      await store.cancelRedeliveryOrder({ id: order.id, login: null, now: NOW + 9 }),
      expected,
    );
    await workOff(store, next.id);
    const ended = await store.cancelRedeliveryOrder({ id: next.id, login: null, now: NOW + 9 });
    assert.deepEqual([ended?.endedAt, ended?.isCancelled], [NOW, false]);
    assert.equal(await store.cancelRedeliveryOrder({ id: "%", login: null, now: NOW }), null);
  });

  test("begins one series for each delivery after 20 steps at once", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const hosts = Array.from({ length: 30 }, (_, i) => `${i % 4}.example`);
    const tasks = await seedEnded(store, accountId, { hosts });
    const order = newOrder();
    await placeOrder(store, order);

    const step = { id: order.id, max: 2, now: NOW };
    const steps = await Promise.all(
      Array.from({ length: 20 }, () => store.stepRedeliveryOrder(step)),
    );

    assert.equal(sum(steps), 30);
    assert.deepEqual(
      await dues(store, tasks),
      tasks.map(() => [T0 + 1000, NOW]),
    );
  });

  test("begins nothing and passes over nothing when a step may begin nothing", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    await seedEnded(store, accountId, { hosts: ABC });
    const order = newOrder();
    await placeOrder(store, order);

    for (const max of [0, -1, -100]) {
      const step = await store.stepRedeliveryOrder({ id: order.id, max, now: NOW });
      assert.deepEqual(step, { lanes: [], redelivered: 0, isDone: false });
    }

    assert.equal(sum(await workOff(store, order.id)), 3);
  });

  // Places in the log are given out again when its newest attempts are erased.
  test("takes nothing that came later for its own when what was ordered has been erased", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    await seedEnded(store, accountId, { hosts: ABC });
    const order = newOrder();
    await placeOrder(store, order);
    while ((await store.eraseExpired({ now: T0 + 2 * RETENTION_MS, max: 10 })).looked > 0) continue;
    const late = { endedAt: ORDERED_AT + 1, now: ORDERED_AT };
    await seedEnded(store, accountId, { hosts: ABC, ...late });

    assert.equal(sum(await workOff(store, order.id)), 0);
  });

  test("keeps no more open orders of a login than one admits, and counts no other's", async (t) => {
    const { store } = await open(t);
    const place = (login: string | null, openMax: number | null) => {
      const filter = deliveryFilter({ login });
      return store.orderRedelivery({ ...newOrder({ filter }), openMax });
    };
    const [first] = [await place("alice", 1)];
    assert(first !== "busy");

    assert.equal(await place("alice", 1), "busy");
    assert.notEqual(await place("bob", 1), "busy");
    assert.notEqual(await place(null, null), "busy");
    assert.notEqual(await place("alice", null), "busy");
    assert.equal(await place("alice", 2), "busy");
    const both = await Promise.all([place("carol", 1), place("carol", 1), place("carol", 1)]);
    assert.equal(both.filter((each) => each === "busy").length, 2);
    assert.equal((await store.listOpenRedeliveryOrders({ limit: 99 })).length, 5);
  });

  test("shows and cancels for a login the orders whose filter names it, and no others", async (t) => {
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
    const [own] = orders;
    assert(own !== undefined);
    const cancelled = await store.cancelRedeliveryOrder({ id: own.id, login: "alice", now: NOW });
    assert.equal(cancelled?.isCancelled, true);
  });

  test("erases orders that ended before a time, and keeps those that are open", async (t) => {
    const { store } = await open(t);
    const orders = [newOrder(), newOrder(), newOrder()];
    for (const order of orders) await placeOrder(store, order);
    const [early, late] = orders;
    assert(early !== undefined && late !== undefined);
    await store.cancelRedeliveryOrder({ id: early.id, login: null, now: NOW });
    await store.cancelRedeliveryOrder({ id: late.id, login: null, now: NOW + 1 });
    const erase = (decidedBefore: number) => store.eraseStale(newStale({ decidedBefore, max: 1 }));

    assert.equal(await erase(NOW), 0);
    assert.equal(await erase(NOW + 2), 1);
    const left = await store.listRedeliveryOrders({ login: null, limit: 9 });
    assert.deepEqual(pluck(left, "id"), [orders[2]?.id, late.id]);
    assert.equal(await erase(Number.MAX_SAFE_INTEGER), 1);
    assert.equal(await erase(Number.MAX_SAFE_INTEGER), 0);
    assert.equal((await firstOpen(store))?.id, orders[2]?.id);
  });
}

/** The part of the conformance suite that is about a clock that was set. */
export function exerciseShift(open: OpenStore): void {
  test("moves what is scheduled for later by as much, and nothing else", async (t) => {
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
    // What is due later than `after`, and not what is due then.
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

  test("hastens what is due later than a first attempt or a retry may be, and nothing else", async (t) => {
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
