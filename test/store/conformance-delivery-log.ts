import assert from "node:assert/strict";
import { test } from "node:test";

import type { DeliveryFilter } from "../../src/domain/webhook/delivery.ts";
import type { DeliverySummary, Store } from "../../src/store/store.ts";
import { deliveryFilter, endDue, ENDED_AT, seedDue, seedEnded } from "../helpers/delivery.ts";
import {
  claimAttempt,
  claimLanes,
  claimOne,
  newAttemptRecord,
  newAttemptResult,
  newFinish,
  newPost,
  newTask,
  newTaskId,
  seedAccount,
  T0,
  webhook,
  pluck,
  withAccount,
  postTask,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

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

    const found = await store.findTaskDeliveries(task.id);

    assert.deepEqual(waiting?.deliveries, []);
    const key = { accountId, id: task.id };
    assert.deepEqual(found, {
      ...{ login: "bob", webhookSecret: "whsec_test", webhookSecretNext: "whsec_next" },
      traceText: null,
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
