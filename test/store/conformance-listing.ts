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
import type { NewTask } from "../../src/domain/task/task.ts";
import type { FoundTaskRow, Scope, Store, TaskPage, TaskQuery } from "../../src/store/store.ts";
import {
  RETENTION_MS,
  T0,
  claimAttempt,
  claimOne,
  leaseOne,
  newAttemptRecord,
  newAttemptResult,
  newFinish,
  newPost,
  newRefusedTask,
  newTask,
  newTaskCancels,
  newTaskId,
  pluck,
  postTask,
  retainedUntil,
  seedAccount,
  seedDelivery,
  seedFinished,
  seedWorker,
  taskQuery,
  webhook,
  withAccount,
  withAccounts,
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

  test("a list by tag and type reads along the filter that fewer tasks pass", async (t) => {
    const { store, accountId } = await withAccount(open(t, { examineMax: 10 }));
    const types = Array.from({ length: 30 }, (_, i) => (i % 10 === 0 ? "rare" : "echo"));
    await seedFinished(store, accountId, {
      tasks: types.map((type) => newTask({ tag: "usual", type })),
    });
    for (const [tag, type, count] of [
      ["usual", "rare", 3],
      ["none", "echo", 0],
      ["usual", "none", 0],
    ] as const) {
      const query = taskQuery(accountId, { tag, type });
      for (const read of ["listTasks", "listReady", "searchTasks"] as const) {
        const { tasks, next } = await store[read](query);
        assert.deepEqual([tasks.length, next], [count, null], `${read} ${tag} ${type}`);
      }
    }
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
    const { store, ada, bob } = await withAccounts(open(t));
    const post = (accountId: number, createdAt: number, task: NewTask) =>
      store.insertTasks(newPost(accountId, [task], { createdAt }));
    const oldest = (...types: readonly string[]) => store.findOldestQueued(types);
    assert.equal(await oldest("echo", "hash"), null);

    await post(ada, T0 + 5000, newTask({ priority: 9 }));
    await post(bob, T0 + 7000, newTask({ priority: 9 }));
    await post(bob, T0 + 6000, newTask({ priority: 3 }));
    await post(bob, T0 + 6000, newTask({ type: "hash" }));
    // It waits since its release, not since its post.
    await post(ada, T0, newTask({ type: "later", startAt: T0 + 8000 }));

    assert.deepEqual([await oldest(), await oldest("none", "later")], [null, null]);
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
    for (const search of [ANY_TASK, ...someSearches(made, 100)]) {
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

export function exerciseTimeline(open: OpenStore): void {
  test("a timeline is found by its account and the operator only", async (t) => {
    const { store } = await open(t);
    const [ada, eve] = [await seedAccount(store, "ada"), await seedAccount(store, "eve")];
    const { id } = await seedDelivery(store, ada);

    const shown = await store.findTimeline({ scope: ada, id });
    assert.equal(shown?.accountId, ada);
    assert.equal(shown.login, "ada");
    assert.equal(shown.isReady, true);
    assert.equal(shown.lease, null);
    assert.deepEqual(pluck(shown.deliveries, "kind", "state"), [["postback", "scheduled"]]);
    assert.deepEqual(await store.findTimeline({ scope: null, id }), shown);
    assert.equal(await store.findTimeline({ scope: eve, id }), null);
    assert.equal(await store.findTimeline({ scope: null, id: newTaskId() }), null);
    assert.equal(await store.findTimeline({ scope: ada, id: "%" }), null);
  });

  test("a timeline has the sizes of input and result, and their texts if a postback carried them", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const inputText = JSON.stringify("ü".repeat(100_000));
    const plain = newTask({ inputText });
    const sent = newTask({ inputText, postback: webhook("a.example") });
    for (const task of [plain, sent]) {
      await store.insertTasks(newPost(accountId, [task]));
      const before = await store.findTimeline({ scope: null, id: task.id });
      assert.deepEqual([before?.inputBytes, before?.resultBytes], [200_002, null]);
      assert.deepEqual([before?.task.inputText, before?.deliveries], [null, []]);
      const run = await claimOne(store);
      await store.finishTask(newFinish(run, { resultText: inputText }));
    }

    const [one, other] = [
      await store.findTimeline({ scope: null, id: plain.id }),
      await store.findTimeline({ scope: null, id: sent.id }),
    ];
    assert.deepEqual([one?.inputBytes, one?.resultBytes], [200_002, 200_002]);
    assert.deepEqual([one?.task.inputText, one?.task.resultText], [null, null]);
    assert.deepEqual([other?.task.inputText, other?.task.resultText], [inputText, inputText]);
  });

  test("a timeline names the worker of the lease and its end", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const workerId = await seedWorker(store, "press");
    const task = await postTask(store, accountId);
    const { leaseExpiresAt } = await leaseOne(store, workerId);
    const held = await store.findTimeline({ scope: accountId, id: task.id });
    assert.deepEqual(held?.lease, {
      ...{ worker: "press", claimedAt: T0, expiresAt: leaseExpiresAt, ending: null },
    });
    await store.cancelTask({ accountId, id: task.id, cancelledAt: T0, ...retainedUntil(T0) });
    const ended = await store.findTimeline({ scope: accountId, id: task.id });
    assert.equal(ended?.lease?.ending, "cancelled");
  });
}
