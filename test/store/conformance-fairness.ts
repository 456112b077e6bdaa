import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import type { NewTask } from "../../src/domain/task/task.ts";
import { CLAIM_INPUT_MAX, type Store } from "../../src/store/store.ts";
import {
  newFinish,
  newLeaseClaim,
  newLeaseType,
  newPost,
  newTask,
  seedAccount,
  seedWorker,
  T0,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

/** The part of the conformance suite that is about whose tasks are started first. */
export function exerciseFairness(open: OpenStore): void {
  test("accounts take turns, one task each, until none is left", async (t) => {
    const { store } = await open(t);
    const queue = await seedQueues(store, [4, 1, 3]);

    const claimed = await store.claimTasks({ type: "echo", max: 100, now: T0 });

    assert.deepEqual(queue.namesOf(claimed), ["a0", "b0", "c0", "a1", "c1", "a2", "c2", "a3"]);
  });

  test("begins with the next account after the one that was served last, and goes round", async (t) => {
    const { store } = await open(t);
    const queue = await seedQueues(store, [3, 3, 3, 3]);
    const claim = async (max: number) =>
      queue.namesOf(await store.claimTasks({ type: "echo", max, now: T0 }));

    assert.deepEqual(await claim(2), ["a0", "b0"]);
    assert.deepEqual(await claim(2), ["c0", "d0"]);
    assert.deepEqual(await claim(1), ["a1"]);
    assert.deepEqual(await claim(6), ["b1", "c1", "d1", "a2", "b2", "c2"]);
    assert.deepEqual(await claim(9), ["d2"]);
  });

  test("claims go on one after the other, also before the first is answered", async (t) => {
    const { store } = await open(t);
    const queue = await seedQueues(store, [3, 3, 3]);
    const claims = [1, 1, 2, 1].map((max) => store.claimTasks({ type: "echo", max, now: T0 }));

    const claimed = (await Promise.all(claims)).flat();

    assert.deepEqual(queue.namesOf(claimed), ["a0", "b0", "c0", "a1", "b1"]);
  });

  test("a claim ends with the task whose input makes all of them too large to hold, and the next goes on", async (t) => {
    const { store } = await open(t);
    const account = await seedAccount(store, "ada");
    const inputText = JSON.stringify("x".repeat(CLAIM_INPUT_MAX / 2 - 2));
    const tasks = Array.from({ length: 5 }, () => newTask({ inputText }));
    for (const task of tasks) await store.insertTasks(newPost(account, [task]));
    const claim = async () => store.claimTasks({ type: "echo", max: 100, now: T0 });

    const claims = [await claim(), await claim(), await claim(), await claim()];

    assert.deepEqual(
      claims.map((claimed) => claimed.map(({ id }) => id)),
      [tasks.slice(0, 2), tasks.slice(2, 4), tasks.slice(4), []].map((part) =>
        part.map(({ id }) => id),
      ),
    );
  });

  test("a worker's claim ends there too, whatever its types", async (t) => {
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
      claims.map((claimed) => claimed.map(({ type }) => type)),
      [["scan", "print"], ["echo"]],
    );
  });

  test("goes by priority, then age, within an account and never across", async (t) => {
    const { store } = await open(t);
    const [ada, bob] = [await seedAccount(store, "ada"), await seedAccount(store, "bob")];
    const ofAda = [0, 9, 5, 9].map((priority) => newTask({ priority }));
    const ofBob = [0, 1].map((priority) => newTask({ priority }));
    await store.insertTasks(newPost(ada, ofAda));
    await store.insertTasks(newPost(bob, ofBob));

    const claimed = await store.claimTasks({ type: "echo", max: 5, now: T0 });

    const expected = [ofAda[1], ofBob[1], ofAda[3], ofBob[0], ofAda[2]];
    assert.deepEqual(
      claimed.map(({ id }) => id),
      expected.map((task) => task?.id),
    );
  });

  test("an account with thousands of queued tasks does not keep another's ten waiting", async (t) => {
    const { store } = await open(t);
    const queue = await seedQueues(store, [3000, 10]);
    const names: string[] = [];
    for (let claims = 0; claims < 4; claims++) {
      const claimed = await store.claimTasks({ type: "echo", max: 5, now: T0 });
      names.push(...queue.namesOf(claimed));
      for (const task of claimed) await store.finishTask(newFinish(task));
    }

    assert.equal(names.filter((name) => name.startsWith("b")).length, 10);
  });

  test("starts what taking turns by hand would start, whoever waits with how much", async (t) => {
    const { store } = await open(t);
    const accounts = await Promise.all(
      ["a", "b", "c", "d", "e"].map((login) => seedAccount(store, login)),
    );
    const sizes = fc.array(fc.nat(9), { minLength: 5, maxLength: 5 });
    const claims = fc.array(fc.integer({ min: 1, max: 12 }));
    // Of all runs: the store remembers whose turn it was.
    let after = 0;

    const property = fc.asyncProperty(sizes, claims, async (lengths, orders) => {
      const queues = new Map<number, string[]>();
      for (const [place, accountId] of accounts.entries()) {
        const tasks = Array.from({ length: lengths[place] ?? 0 }, () => newTask());
        if (tasks.length > 0) await store.insertTasks(newPost(accountId, tasks));
        queues.set(
          accountId,
          tasks.map(({ id }) => id),
        );
      }
      for (const max of [...orders, 100]) {
        const claimed = await store.claimTasks({ type: "echo", max, now: T0 });
        assert.deepEqual(
          claimed.map(({ id }) => id),
          takeTurns(queues, max, after),
        );
        after = claimed.at(-1)?.accountId ?? after;
      }
    });
    await fc.assert(property, { numRuns: 25, seed: 11 });
  });

  test("serves the types of a worker in the order given, each up to its own number, and all up to theirs", async (t) => {
    const { store } = await open(t);
    const accountId = await seedAccount(store);
    const workerId = await seedWorker(store);
    const posted = ["x", "y", "z"].flatMap((type) => [1, 2, 3].map(() => newTask({ type })));
    await store.insertTasks(newPost(accountId, posted));
    const claim = async (max: number, ...types: readonly (readonly [string, number])[]) => {
      const leaseTypes = types.map(([type, most]) => newLeaseType({ type, max: most }));
      const tasks = await store.claimLeases(newLeaseClaim(workerId, { types: leaseTypes, max }));
      return tasks.map(({ type }) => type).join("");
    };

    assert.equal(await claim(4, ["y", 2], ["x", 5], ["z", 5]), "yyxx");
    assert.equal(await claim(4, ["none", 9], ["z", 0], ["x", 9]), "x");
    assert.equal(await claim(0, ["z", 9]), "");
    assert.equal(await claim(9), "");
    assert.equal(await claim(9, ["z", 9], ["y", 9]), "zzzy");
  });

  test("looks at what each account has waiting for the age of the queue", async (t) => {
    const { store } = await open(t);
    const accounts = await Promise.all(["a", "b", "c"].map((login) => seedAccount(store, login)));
    for (const [place, accountId] of accounts.entries()) {
      for (const priority of [9, 3]) {
        const createdAt = T0 + 1000 - place * 100 - (priority === 3 ? 10 : 0);
        await store.insertTasks(newPost(accountId, [newTask({ priority })], { createdAt }));
      }
    }

    assert.equal(await store.findOldestQueued(["echo"]), T0 + 1000 - 200 - 10);
    await store.claimTasks({ type: "echo", max: 5, now: T0 });
    assert.equal(await store.findOldestQueued(["echo"]), T0 + 1000 - 200 - 10);
    await store.claimTasks({ type: "echo", max: 5, now: T0 });
    assert.equal(await store.findOldestQueued(["echo"]), null);
  });

  test("counts what there is to do of each type, and of what waits no more than asked for", async (t) => {
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

/** Posts so many tasks for each of as many accounts; they are called a0, a1, … and b0, b1, … */
async function seedQueues(store: Store, sizes: readonly number[]) {
  const names = new Map<string, string>();
  for (const [place, size] of sizes.entries()) {
    const login = String.fromCharCode(97 + place);
    const tasks: readonly NewTask[] = Array.from({ length: size }, () => newTask());
    for (const [i, { id }] of tasks.entries()) names.set(id, `${login}${i}`);
    const accountId = await seedAccount(store, login);
    await store.insertTasks(newPost(accountId, tasks));
  }
  const namesOf = (claimed: readonly { readonly id: string }[]) =>
    claimed.map(({ id }) => names.get(id) ?? id);
  return { namesOf };
}

export function takeTurns(
  queues: Map<number, string[]>,
  max: number,
  after: number,
): readonly string[] {
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
