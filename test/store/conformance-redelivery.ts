import assert from "node:assert/strict";
import { test } from "node:test";

import type { NewTask } from "../../src/domain/task/task.ts";
import type { DeliveryFilter } from "../../src/domain/webhook/delivery.ts";
import type {
  DeliverySummary,
  RedeliveryOrder,
  RedeliveryStep,
  Store,
} from "../../src/store/store.ts";
import {
  ENDED_AT,
  ORDERED_AT,
  deliveryFilter,
  endDue,
  newOrder,
  placeOrder,
  seedDue,
  seedEnded,
} from "../helpers/delivery.ts";
import {
  RETENTION_MS,
  T0,
  claimAttempt,
  claimLanes,
  claimOne,
  newAttemptRecord,
  newAttemptResult,
  newFinish,
  newPost,
  newStale,
  newTask,
  newTaskId,
  pluck,
  postTask,
  seedAccount,
  webhook,
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
    await seedEnded(store, bob, { hosts: ABC, result: { outcome: "timed_out" } });
    await seedEnded(store, ada, { hosts: ABC, state: "refused", endedAt: ENDED_AT - 1 });
    // No delivery of an earlier row passes.
    for (const [overrides, deliveries] of [
      [{ taskId: newTaskId() }, 0],
      [{ states: ["refused"], host: "a.example", until: ENDED_AT }, 1],
      [{ login: "bob", outcome: "timed_out", since: ENDED_AT }, 3],
      [{}, 2],
    ] as const) {
      const filter = deliveryFilter(overrides);
      const count = await store.countEndedDeliveries(filter);
      const order = newOrder({ filter });
      await placeOrder(store, order);
      const steps = await workOff(store, order.id, 2);
      const name = JSON.stringify(overrides);
      assert.deepEqual([count.deliveries, sum(steps)], [deliveries, deliveries], name);
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

const DUE = T0 + 1000;

function list(
  store: Store,
  filter: Partial<DeliveryFilter> = {},
  page: { readonly limit?: number; readonly before?: number | null } = {},
): Promise<readonly DeliverySummary[]> {
  const { limit = 100, before = null } = page;
  return store.listAllDeliveries({ filter: deliveryFilter(filter), limit, before });
}

/** The hosts of what a filter lists; seeded deliveries have one each. */
async function hostsOf(store: Store, filter: Partial<DeliveryFilter>): Promise<readonly string[]> {
  return (await list(store, filter)).map(({ url }) => new URL(url).host.replace(".example", ""));
}

/**
 * A delivery in each state, on the host of its name. Oldest first: delivered (of bob), given-up,
 * refused, interrupted (scheduled again), retrying (in flight), fresh (never tried), first (in flight).
 */
async function seedEveryState(store: Store) {
  const [ada, bob] = [await seedAccount(store), await seedAccount(store, "bob")];
  const delivered = { outcome: "delivered", httpStatus: 204, error: null } as const;
  const end = async (host: string, accountId: number, given: Parameters<typeof endDue>[2]) =>
    seedEnded(store, accountId, { hosts: [`${host}.example`], ...given });
  await end("delivered", bob, { state: "delivered", result: delivered, endedAt: DUE + 10 });
  await end("given-up", ada, { result: { outcome: "timed_out" }, endedAt: DUE + 20 });
  await end("refused", ada, {
    state: "refused",
    result: { outcome: "refused" },
    endedAt: DUE + 30,
  });
  for (const [host, outcome] of [
    ["interrupted", "interrupted"],
    ["retrying", "failed"],
  ] as const) {
    await seedDue(store, ada, [`${host}.example`]);
    const attempt = await claimAttempt(store, `${host}.example`);
    const result = newAttemptResult({ outcome });
    await store.recordAttempt(newAttemptRecord(attempt, { result, endedAt: DUE + 40 }));
  }
  await claimAttempt(store, "retrying.example", DUE + 60_040);
  await seedDue(store, ada, ["fresh.example"]);
  await seedDue(store, ada, ["first.example"]);
  await claimAttempt(store, "first.example");
  await store.insertTasks(newPost(ada, [newTask({ postback: webhook("waiting.example") })]));
}

const ALL = ["first", "fresh", "retrying", "interrupted", "refused", "given-up", "delivered"];
const ENDED = ["refused", "given-up", "delivered"];

const FILTERS: readonly (readonly [string, Partial<DeliveryFilter>, readonly string[]])[] = [
  ["none", {}, ALL],
  ["an account", { login: "bob" }, ["delivered"]],
  ["an account that nobody has", { login: "Bob" }, []],
  ["a login that means more elsewhere", { login: "%' OR 1=1 --" }, []],
  ["a kind", { kind: "postback" }, ALL],
  ["a kind that none has", { kind: "pingback" }, []],
  ["a host", { host: "refused.example" }, ["refused"]],
  ["a part of a host", { host: "example" }, []],
  ["a host that means more elsewhere", { host: "%" }, []],
  ["one state", { states: ["scheduled"] }, ["fresh", "interrupted"]],
  ["what is in flight", { states: ["in_flight"] }, ["first", "retrying"]],
  ["several states", { states: ["delivered", "given_up", "refused"] }, ENDED],
  ["no state", { states: [] }, []],
  ["how the last ended attempt went", { outcome: "failed" }, ["retrying"]],
  ["an outcome that is no state", { outcome: "interrupted" }, ["interrupted"]],
  ["a time before the end", { since: DUE + 20, until: DUE + 40 }, ["refused", "given-up"]],
  ["when the untried are due", { since: DUE, until: DUE + 1 }, ["first", "fresh"]],
  ["a time when nothing was", { since: DUE + 41 }, []],
  ["a task that is not there", { taskId: newTaskId() }, []],
  ["a task by a pattern", { taskId: "%" }, []],
  [
    "several things",
    { login: "ada", host: "given-up.example", states: ["given_up"], outcome: "timed_out" },
    ["given-up"],
  ],
  ["two that exclude each other", { login: "bob", host: "refused.example" }, []],
];

export function exerciseDeliveryLog(open: OpenStore): void {
  test("a task of any account is found with its deliveries and secrets", async (t) => {
    const { store } = await open(t);
    await seedAccount(store);
    const accountId = await seedAccount(store, "bob");
    const task = await postTask(store, accountId, {
      ...{ postback: webhook("a.example"), pingback: webhook("b.example"), inputText: "[1]" },
    });
    const waiting = await store.findTaskDeliveries(task.id);
    await store.finishTask(newFinish(await claimOne(store)));
    await claimAttempt(store, "b.example");
    await store.rotateSecret({ login: "bob", next: "whsec_next" });
    await store.setAccountDisabled({ login: "bob", disabledAt: T0 });

    const found = await store.findTaskDeliveries(task.id);

    assert.deepEqual(waiting?.deliveries, []);
    const key = { accountId, id: task.id };
    assert.deepEqual(found, {
      ...{ login: "bob", webhookSecret: "whsec_test", webhookSecretNext: "whsec_next" },
      ...{ disabledAt: T0, traceText: null },
      task: (await store.findTask(key))?.task,
      deliveries: await store.listDeliveries(key),
    });
    assert.deepEqual(pluck(found?.deliveries, "kind", "state"), [
      ["pingback", "in_flight"],
      ["postback", "scheduled"],
    ]);
    for (const id of [newTaskId(), "", "%", task.id.toUpperCase()]) {
      assert.equal(await store.findTaskDeliveries(id), null);
    }
  });

  test("each delivery is listed with its state and its last ended attempt", async (t) => {
    const { store } = await open(t);
    await seedEveryState(store);

    const shown = await list(store);

    const failed = { outcome: "failed", httpStatus: null, error: "connection refused", number: 1 };
    const delivered = { outcome: "delivered", httpStatus: 204, error: null, number: 1 };
    assert.deepEqual(
      shown.map(({ url, login, state, nextDueAt, last }) => [
        ...[new URL(url).host.replace(".example", ""), login, state, nextDueAt],
        last,
      ]),
      [
        ["first", "ada", "in_flight", null, null],
        ["fresh", "ada", "scheduled", DUE, null],
        ["retrying", "ada", "in_flight", null, { ...failed, endedAt: DUE + 40 }],
        [
          ...["interrupted", "ada", "scheduled", DUE + 60_040],
          { ...failed, outcome: "interrupted", endedAt: DUE + 40 },
        ],
        ["refused", "ada", "refused", null, { ...failed, outcome: "refused", endedAt: DUE + 30 }],
        [
          "given-up",
          "ada",
          "given_up",
          null,
          { ...failed, outcome: "timed_out", endedAt: DUE + 20 },
        ],
        ["delivered", "bob", "delivered", null, { ...delivered, endedAt: DUE + 10 }],
      ],
    );
    assert.deepEqual(new Set(pluck(shown, "kind")), new Set(["postback"]));
  });

  test("each filter lists its deliveries newest first, and counts those that have ended", async (t) => {
    const { store, again } = await open(t);
    await seedEveryState(store);
    const bounded = await again({ examineMax: 4 });
    for (const [name, filter, hosts] of FILTERS) {
      assert.deepEqual(await hostsOf(store, filter), hosts, name);
      const ended = hosts.filter((host) => ENDED.includes(host)).toSorted();
      const expected = ended.map((host) => ({ host: `${host}.example`, deliveries: 1 }));
      const counted = { deliveries: ended.length, hosts: expected };
      const whole = deliveryFilter(filter);
      assert.deepEqual(await store.countEndedDeliveries(whole), counted, name);
      assert.deepEqual(await countInSteps(bounded, whole), counted, name);
    }
  });

  test("deliveries are counted by host, the 100 largest first", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const singles = Array.from({ length: 105 }, (_, i) => `h${String(i).padStart(3, "0")}.example`);
    const hosts = [...singles, "z.example", "z.example", "z.example", "y.example", "y.example"];
    await seedEnded(store, accountId, { hosts });
    const count = await store.countEndedDeliveries(deliveryFilter());
    assert.equal(count.deliveries, 110);
    assert.equal(count.hosts.length, 100);
    assert.deepEqual(count.hosts.slice(0, 3), [
      { host: "z.example", deliveries: 3 },
      { host: "y.example", deliveries: 2 },
      { host: "h000.example", deliveries: 1 },
    ]);
  });

  test("a delivery is listed once, at its newest attempt", async (t) => {
    const { store, again, accountId } = await withAccount(open(t));
    const hosts = ["a.example", "b.example"];
    const [old] = await seedEnded(store, accountId, { hosts });
    assert(old !== undefined);
    for (let i = 1; i <= 3; i++) {
      const now = ENDED_AT + i;
      await store.redeliver({ accountId, id: old.id, kind: null, states: null, now });
      await endDue(store, ["a.example"], { state: "delivered", endedAt: now, now });
    }

    const shown = await list(store);

    assert.deepEqual(
      shown.map(({ url, state, last }) => [new URL(url).host, state, last?.endedAt]),
      [
        ["a.example", "delivered", ENDED_AT + 3],
        ["b.example", "given_up", ENDED_AT],
      ],
    );
    // Older attempts do not pass the filter.
    assert.deepEqual(await hostsOf(store, { until: ENDED_AT + 1 }), ["b"]);
    assert.equal((await store.countEndedDeliveries(deliveryFilter())).deliveries, 2);
    const bounded = await again({ examineMax: 1 });
    assert.equal((await countInSteps(bounded, deliveryFilter())).deliveries, 2);
  });

  test("the pages of a list, also of one task, have each delivery once", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const both = newTask({ postback: webhook("a.example"), pingback: webhook("b.example") });
    await store.insertTasks(newPost(accountId, [both]));
    await store.finishTask(newFinish(await claimOne(store)));
    await claimLanes(store, ["b.example"]);
    await seedEnded(store, accountId, { hosts: ["c.example", "d.example", "e.example"] });
    const whole = await list(store);
    const pages = async (filter: Partial<DeliveryFilter>) => {
      const seen: DeliverySummary[] = [];
      for (let before: number | null = null; ;) {
        const page = await list(store, filter, { limit: 1, before });
        seen.push(...page);
        const last = page.at(-1);
        if (last === undefined) return seen;
        before = last.seq;
      }
    };

    assert.equal(whole.length, 5);
    assert.deepEqual(await pages({}), whole);
    const ofTask = whole.filter(({ taskId }) => taskId === both.id);
    assert.equal(ofTask.length, 2);
    assert.deepEqual(await list(store, { taskId: both.id }), ofTask);
    assert.deepEqual(await pages({ taskId: both.id }), ofTask);
    const [one] = await list(store, { taskId: both.id, kind: "pingback" });
    assert.equal(one?.state, "in_flight");
    assert.deepEqual(await list(store, { taskId: both.id, login: "nobody" }), []);
  });
}

/** Counts in steps of a few attempts each. */
async function countInSteps(store: Store, filter: DeliveryFilter) {
  const counts = new Map<string, number>();
  let [deliveries, steps] = [0, 0];
  for (let before: number | null = null; steps === 0 || before !== null; steps++) {
    const step = await store.countEndedDeliveriesStep({ filter, before });
    deliveries += step.deliveries;
    for (const { host, deliveries: count } of step.hosts) {
      counts.set(host, (counts.get(host) ?? 0) + count);
    }
    before = step.next;
  }
  if (filter.taskId === null) assert(steps > 1, "one step has counted all");
  const hosts = Array.from(counts, ([host, count]) => ({ host, deliveries: count }));
  return { deliveries, hosts: hosts.toSorted((x, y) => (x.host < y.host ? -1 : 1)) };
}
