import assert from "node:assert/strict";
import { test } from "node:test";

import { CLAIM_INPUT_MAX } from "../../src/store/store.ts";
import {
  newLeaseClaim,
  newLeaseType,
  newPost,
  newTask,
  seedAccount,
  seedWorker,
  T0,
  pluck,
  withAccount,
  withAccounts,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

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
    assert.equal(await claim(0, ["z", 9]), "");
    assert.equal(await claim(9), "");
    assert.equal(await claim(9, ["z", 9], ["y", 9]), "zzzy");
  });

  test("the age of the queue is the age of the oldest task of all accounts", async (t) => {
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
