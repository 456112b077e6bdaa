import assert from "node:assert/strict";
import { test } from "node:test";

import {
  ANY_TASK,
  SEARCHED_DELIVERIES,
  SEARCHED_STATES,
  type SearchedDelivery,
  type SearchedState,
  type TaskSearch,
} from "../../src/domain/task/task-search.ts";
import type { FoundTaskRow, Scope, Store, TaskPage } from "../../src/store/store.ts";
import {
  claimAttempt,
  claimOne,
  newAttemptRecord,
  newAttemptResult,
  newFinish,
  newPost,
  newRefusedTask,
  newTask,
  retainedUntil,
  seedAccount,
  T0,
  webhook,
  pluck,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

/** A task as it was made: what a search has to find it by. */
interface Made {
  readonly id: string;
  readonly accountId: number;
  readonly login: string;
  readonly type: string;
  readonly tag: string | null;
  readonly code: number;
  readonly createdAt: number;
  readonly states: readonly SearchedState[];
  /** By host. */
  readonly deliveries: readonly {
    readonly host: string;
    readonly states: readonly SearchedDelivery[];
  }[];
}

const FATES = [
  ...["queued", "delayed", "running", "completed", "collected", "failed", "refused task"],
  ...["cancelled", "scheduled", "in_flight", "retrying", "delivered", "given_up", "refused"],
] as const;

type Fate = (typeof FATES)[number];

const FAR = T0 + 1_000_000_000;
const HOSTS = ["a.example", "b.example"];

/** Makes a task that stays as its fate says. */
async function makeTask(
  store: Store,
  of: Pick<Made, "accountId" | "login" | "tag" | "createdAt"> & {
    readonly fate: Fate;
    readonly host: string;
  },
): Promise<Made> {
  const { fate, accountId, login, tag, createdAt, host } = of;
  const known = { accountId, login, tag, createdAt };
  const isSent = FATES.indexOf(fate) >= FATES.indexOf("scheduled");
  const hook = { postback: isSent || fate === "queued" ? webhook(host) : null };
  if (fate === "refused task") {
    const task = newRefusedTask({ tag });
    await store.insertTasks(newPost(accountId, [], { refused: [task], createdAt }));
    return {
      ...known,
      id: task.id,
      type: "echo",
      code: 40_506,
      states: ["failed"],
      deliveries: [],
    };
  }
  // Tasks that stay queued have another type, so that no claim takes them.
  const isLeft = ["queued", "delayed", "cancelled"].includes(fate);
  const type = isLeft ? "parked" : "echo";
  const startAt = fate === "delayed" ? FAR : null;
  const task = newTask({ tag, type, startAt, ...hook });
  await store.insertTasks(newPost(accountId, [task], { createdAt }));
  const made = { ...known, id: task.id, type };
  if (fate === "queued") return { ...made, ...QUEUED, deliveries: [{ host, states: ["waiting"] }] };
  if (fate === "delayed") {
    return { ...made, ...QUEUED, states: ["queued", "delayed"], deliveries: [] };
  }
  if (fate === "cancelled") {
    const key = { accountId, id: task.id };
    await store.cancelTask({ ...key, cancelledAt: createdAt, ...retainedUntil(FAR) });
    return { ...made, code: 40_901, states: ["cancelled"], deliveries: [] };
  }
  const run = await claimOne(store);
  if (fate === "running") {
    return { ...made, code: 40_601, states: ["running"], deliveries: [] };
  }
  const isFailed = fate === "failed";
  const end = isFailed ? ({ state: "failed", code: 50_010, resultText: null } as const) : {};
  // Attempts that stay scheduled are due later than any that is claimed.
  const endedAt = fate === "scheduled" ? FAR : T0 + 1000;
  await store.finishTask(newFinish(run, { ...end, endedAt }));
  if (fate === "collected") await store.collectTask({ accountId, id: task.id });
  const states: SearchedState[] = [isFailed ? "failed" : "completed"];
  if (fate !== "collected") states.push("ready");
  const code = isFailed ? 50_010 : 20_000;
  if (!isSent) return { ...made, code, states, deliveries: [] };
  return {
    ...made,
    code,
    states,
    deliveries: [{ host, states: await deliver(store, fate, host) }],
  };
}

const QUEUED = { code: 40_602, states: ["queued", "waiting"] } as const;

async function deliver(
  store: Store,
  fate: Fate,
  host: string,
): Promise<readonly SearchedDelivery[]> {
  if (fate === "scheduled") return ["scheduled"];
  const attempt = await claimAttempt(store, host);
  if (fate === "in_flight") return ["in_flight"];
  if (fate === "retrying") {
    const decision = { state: "scheduled", dueAt: FAR, retry: 1 } as const;
    await store.recordAttempt(newAttemptRecord(attempt, { decision }));
    return ["scheduled", "retrying"];
  }
  assert(fate === "delivered" || fate === "given_up" || fate === "refused");
  const result = newAttemptResult({ outcome: fate === "given_up" ? "failed" : fate });
  await store.recordAttempt(newAttemptRecord(attempt, { result, decision: { state: fate } }));
  return [fate];
}

/** Tasks of every fate, of two accounts. */
async function makeTasks(store: Store): Promise<readonly Made[]> {
  const accounts = [
    { accountId: await seedAccount(store, "alice"), login: "alice" },
    { accountId: await seedAccount(store, "bob"), login: "bob" },
  ];
  const made: Made[] = [];
  for (let i = 0; i < 140; i++) {
    const account = accounts[i % 3 === 0 ? 1 : 0];
    const host = HOSTS[i % 2];
    assert(account !== undefined && host !== undefined);
    const tag = i % 4 === 0 ? null : `tag ${i % 5}`;
    const fate = FATES[(i * 5) % FATES.length];
    assert(fate !== undefined);
    // Some of one time.
    const createdAt = T0 + Math.floor(i / 3) * 1000;
    made.push(await makeTask(store, { ...account, tag, fate, host, createdAt }));
  }
  return made;
}

/** The meaning of a search. */
function passes(task: Made, scope: Scope, search: TaskSearch): boolean {
  const { id, login, states, type, tag, code, host, deliveries } = search;
  const isAny = <Value>(wanted: Value | null, value: Value) => wanted === null || wanted === value;
  const hasState = states === null || states.some((state) => task.states.includes(state));
  const isSought = (each: Made["deliveries"][number]) =>
    isAny(host, each.host) &&
    (deliveries === null || deliveries.some((state) => each.states.includes(state)));
  const hasDelivery = (host === null && deliveries === null) || task.deliveries.some(isSought);
  const isInTime =
    task.createdAt >= (search.createdAfter ?? 0) &&
    task.createdAt < (search.createdBefore ?? Number.MAX_SAFE_INTEGER);
  const isOf = isAny(scope, task.accountId) && isAny(login, task.login) && isAny(id, task.id);
  const isSuch = isAny(type, task.type) && isAny(tag, task.tag) && isAny(code, task.code);
  return isOf && isSuch && hasState && hasDelivery && isInTime;
}

interface Pages {
  readonly limit?: number;
  /** Done between two pages. */
  readonly between?: () => Promise<void>;
}

/** All that a search finds, page by page. */
async function findAll(
  store: Store,
  of: { readonly scope: Scope; readonly search: TaskSearch },
  { limit = 200, between }: Pages = {},
): Promise<readonly FoundTaskRow[]> {
  const found: FoundTaskRow[] = [];
  let after: TaskPage["next"] = null;
  for (let pages = 0; pages < 1000; pages++) {
    const page: TaskPage<FoundTaskRow> = await store.searchTasks({ ...of, limit, after });
    assert.ok(page.tasks.length <= limit);
    found.push(...page.tasks);
    after = page.next;
    if (after === null) return found;
    await between?.();
  }
  return assert.fail("the search has no end");
}

function newRandom(): () => number {
  let seed = 7;
  return () => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return seed / 2 ** 32;
  };
}

/** Searches of all sorts, always the same. */
function someSearches(made: readonly Made[], count: number): readonly TaskSearch[] {
  const random = newRandom();
  const pick = <Item>(items: readonly Item[]): Item => {
    const item = items[Math.floor(random() * items.length)];
    assert(item !== undefined);
    return item;
  };
  const maybe = <Value>(part: number, make: () => Value): Value | null =>
    random() < part ? make() : null;
  const some = <Item>(items: readonly Item[]): readonly Item[] => {
    const chosen = items.filter(() => random() < 0.25);
    return chosen.length === 0 ? [pick(items)] : chosen;
  };
  return Array.from({ length: count }, () => ({
    id: maybe(0.05, () => pick(made).id),
    login: maybe(0.15, () => pick(["alice", "bob", "nobody"])),
    states: maybe(0.4, () => some(SEARCHED_STATES)),
    deliveries: maybe(0.4, () => some(SEARCHED_DELIVERIES)),
    type: maybe(0.2, () => pick(["echo", "parked", "none"])),
    tag: maybe(0.15, () => pick(["tag 1", "tag 2", "none"])),
    host: maybe(0.2, () => pick([...HOSTS, "c.example"])),
    code: maybe(0.1, () => pick([20_000, 50_010, 40_506, 50_700])),
    createdAfter: maybe(0.15, () => pick(made).createdAt),
    createdBefore: maybe(0.15, () => pick(made).createdAt),
  }));
}

export function exerciseSearch(open: OpenStore): void {
  test("random searches and lists have exactly the tasks that pass, newest first, on pages of any size", async (t) => {
    const { store, again } = await open(t);
    const made = await makeTasks(store);
    const bounded = await again({ examineMax: 10 });
    const [{ accountId } = assert.fail()] = made;
    let finds = 0;
    for (const search of [ANY_TASK, ...someSearches(made, 150)]) {
      for (const scope of [accountId, null]) {
        const expected = made.filter((task) => passes(task, scope, search)).toReversed();
        const ids = pluck(expected, "id");
        const text = JSON.stringify({ scope, search });
        for (const [from, limit] of [
          [store, 200],
          [store, 3],
          [bounded, 7],
        ] as const) {
          const found = await findAll(from, { scope, search }, { limit });
          assert.deepEqual(pluck(found, "id"), ids, text);
          finds += found.length;
        }
        if (scope !== null && search.login === null) {
          const listed = await store.listTasks({ scope, search, limit: 200, after: null });
          assert.deepEqual([pluck(listed.tasks, "id"), listed.next], [ids, null], text);
        }
      }
    }
    assert.ok(finds > 500);
  });

  test("a found task has the state, the last and the next attempt of its webhooks", async (t) => {
    const { store } = await open(t);
    const made = await makeTasks(store);
    const found = await findAll(store, { scope: null, search: ANY_TASK });
    const shown = new Map(found.map((task) => [task.id, task]));
    for (const task of made) {
      const row = shown.get(task.id) ?? assert.fail();
      assert.deepEqual([row.login, row.type, row.tag], [task.login, task.type, task.tag]);
      assert.equal(row.isReady, task.states.includes("ready"));
      for (const { host, states } of task.deliveries) {
        const [delivery, ...others] = row.deliveries;
        assert.equal(others.length, 0);
        assert.equal(delivery?.host, host);
        assert.equal(delivery.state, states[0]);
        const isTried = !states.includes("waiting") && states.join() !== "scheduled";
        assert.equal(delivery.attempts, isTried ? 1 : 0);
        const hasEnded = isTried && states[0] !== "in_flight";
        assert.equal(delivery.last !== null, hasEnded);
        assert.equal(delivery.nextDueAt, states[0] === "scheduled" ? FAR : null);
      }
    }
  });

  test("a search finds each task once while tasks are posted between pages", async (t) => {
    const { store } = await open(t, { examineMax: 8 });
    const made = await makeTasks(store);
    const [{ accountId, login } = assert.fail()] = made;
    for (const scope of [accountId, null]) {
      const known = made.filter((task) => passes(task, scope, ANY_TASK)).toReversed();
      const between = async (): Promise<void> => {
        const host = "a.example";
        const at = { createdAt: T0 + 900_000, tag: null };
        await makeTask(store, { accountId, login, fate: "cancelled", host, ...at });
      };
      const found = await findAll(
        store,
        { scope, search: { ...ANY_TASK, createdBefore: T0 + 800_000 } },
        { limit: 5, between },
      );
      assert.deepEqual(pluck(found, "id"), pluck(known, "id"));
    }
  });

  test("a page examines a limited number of rows and reports the last", async (t) => {
    const { store } = await open(t, { examineMax: 20 });
    const made = await makeTasks(store);
    const [{ accountId } = assert.fail()] = made;
    const search = { ...ANY_TASK, code: 50_700 };
    for (const scope of [accountId, null]) {
      const query = { scope, search, limit: 10 };
      const own = made.filter((task) => scope === null || task.accountId === scope).toReversed();
      const first = await store.searchTasks({ ...query, after: null });
      assert.deepEqual(first.tasks, []);
      assert.equal(first.examinedUntil, own[19]?.createdAt);
      assert.notEqual(first.next, null);
      const second = await store.searchTasks({ ...query, after: first.next });
      assert.equal(second.examinedUntil, own[39]?.createdAt);
    }
  });

  test("a search of an account reveals no time of another account's tasks", async (t) => {
    const { store } = await open(t, { examineMax: 5 });
    const alice = { accountId: await seedAccount(store, "alice"), login: "alice", tag: null };
    const bob = { accountId: await seedAccount(store, "bob"), login: "bob", tag: null };
    const host = "a.example";
    for (let i = 0; i < 6; i++) {
      const fate = i < 2 ? "given_up" : "collected";
      await makeTask(store, { ...alice, host, fate, createdAt: T0 + i });
    }
    for (let i = 0; i < 20; i++) {
      await makeTask(store, { ...bob, host, fate: "given_up", createdAt: T0 + 1000 + i });
    }
    const search = { ...ANY_TASK, deliveries: ["given_up"] as const };
    const pages: TaskPage<FoundTaskRow>[] = [];
    let after: TaskPage["next"] = null;
    do {
      const query = { scope: alice.accountId, search, limit: 1, after };
      const page: TaskPage<FoundTaskRow> = await store.searchTasks(query);
      pages.push(page);
      after = page.next;
    } while (after !== null && pages.length < 100);

    assert.equal(pages.flatMap(({ tasks }) => tasks).length, 2);
    assert.ok(pages.length > 4);
    for (const { examinedUntil, next } of pages) {
      assert.ok(examinedUntil === null || examinedUntil <= T0 + 1);
      const isHidden = next === null || next.timeMs <= T0 + 1 || next.timeMs > 4e14;
      assert.ok(isHidden, JSON.stringify(next));
    }
  });
}
