import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { dirname } from "node:path";
import { test, type TestContext } from "node:test";

import type { Store } from "../../src/store/store.ts";
import { runProgram } from "../helpers/program.ts";
import {
  newDatabaseFile,
  newPost,
  newTask,
  openTestStore,
  seedAccount,
  T0,
} from "../helpers/store.ts";
import { reasonToSkipTerminal, startOnTerminal } from "../helpers/terminal.ts";

const skip = reasonToSkipTerminal();

interface Seeded {
  readonly database: string;
  readonly store: Store;
  readonly accountId: number;
  readonly ids: readonly string[];
}

/** A file with two tasks of the account ada, which is disabled. */
async function seed(t: TestContext): Promise<Seeded> {
  const database = newDatabaseFile(t);
  const store = await openTestStore(t, { file: database });
  const accountId = await seedAccount(store, "ada");
  const tasks = [newTask({ inputText: '"0123456789"' }), newTask()];
  await store.insertTasks(newPost(accountId, tasks));
  await store.setAccountDisabled({ login: "ada", disabledAt: T0 });
  return { database, store, accountId, ids: tasks.map(({ id }) => id) };
}

test(
  "on a terminal an account is erased only after a yes to what goes with it",
  { skip },
  async (t) => {
    const { database, store } = await seed(t);
    const words = ["admin", "account", "erase", "ada", "--db", database];

    const refused = startOnTerminal(t, words);
    await refused.shows("erases the account ada with 2 tasks");
    await refused.shows("Go on? [y/N]");
    refused.type("\n");
    assert.equal(await refused.exit, 1);
    assert.match(refused.shown, /postbackd: nothing was done/);
    assert.notEqual(await store.findAccount("ada"), null);

    const meant = startOnTerminal(t, words);
    await meant.shows("Go on? [y/N]");
    meant.type("y\n");
    assert.equal(await meant.exit, 0, meant.shown);
    assert.match(meant.shown, /Account ada is erased, with 2 tasks\./);
    assert.match(meant.shown, /tasks erased: 2 of 2/);
    assert.equal(await store.findAccount("ada"), null);
  },
);

test(
  "a question that is not answered is a no: Ctrl-C and Ctrl-D end the command",
  { skip },
  async (t) => {
    const { database, store, accountId, ids } = await seed(t);
    const [id = ""] = ids;

    for (const key of ["\u0003", "\u0004"]) {
      const program = startOnTerminal(t, ["admin", "task", "erase", id, "--db", database]);
      await program.shows(`erases the queued task ${id} of ada for good: 12 bytes of input`);
      await program.shows("[y/N]");
      program.type(key);
      assert.equal(await program.exit, 1, program.shown);
      assert.match(program.shown, /not answered; nothing was done/);
    }
    assert.notEqual(await store.findTask({ accountId, id }), null);
  },
);

test("--yes asks nobody, and without a terminal nobody is asked", { skip }, async (t) => {
  const { database, store, accountId, ids } = await seed(t);
  const [first = "", second = ""] = ids;
  const words = (id: string): string[] => ["admin", "task", "erase", id, "--db", database];

  const onTerminal = startOnTerminal(t, [...words(first), "--yes"]);
  const inScript = await runProgram(t, words(second));

  assert.equal(await onTerminal.exit, 0, onTerminal.shown);
  assert.doesNotMatch(onTerminal.shown, /Go on/);
  assert.deepEqual([inScript.code, inScript.stderr], [0, ""]);
  for (const id of ids) assert.equal(await store.findTask({ accountId, id }), null);
});

test(
  "a cancel of many says on a terminal how many, and one of one task does not ask",
  { skip },
  async (t) => {
    const { database, store, accountId, ids } = await seed(t);
    const [id = ""] = ids;
    const cancel = (...words: string[]) =>
      startOnTerminal(t, ["admin", "task", "cancel", ...words, "--db", database]);

    const one = cancel(id);
    assert.equal(await one.exit, 0, one.shown);
    const many = cancel("--account", "ada");
    await many.shows("cancels for good: 1 task in the queue. Go on? [y/N]");
    many.type("n\n");

    assert.equal(await many.exit, 1);
    assert.deepEqual((await store.countWork(accountId)).queued, 1);
  },
);

test(
  "a restore says on a terminal what it takes the place of, then what becomes of webhooks",
  { skip },
  async (t) => {
    const { database, store } = await seed(t);
    await store.close();
    const copy = `${database}.copy`;
    const made = await runProgram(t, ["backup", "create", copy, "--db", database]);
    assert.equal(made.code, 0, made.stderr);
    const restore = () => startOnTerminal(t, ["backup", "restore", copy, "--db", database]);
    const replaced = (): boolean =>
      readdirSync(dirname(database)).some((name) => name.includes(".replaced-"));

    const refused = restore();
    await refused.shows("this puts 2 tasks");
    await refused.shows("[y/N]");
    refused.type("no\n");
    assert.equal(await refused.exit, 1);
    assert.equal(replaced(), false);

    const meant = restore();
    await meant.shows("[y/N]");
    meant.type("yes\n");
    await meant.shows("[pause/resume]");
    meant.type("pause\n");
    assert.equal(await meant.exit, 0, meant.shown);
    assert.equal(replaced(), true);
    assert.equal(existsSync(database), true);
  },
);

test("a move says on a terminal that the old database starts no more", { skip }, async (t) => {
  const { database } = await seed(t);
  const move = ["move", "--from", database, "--to", "postgres://nobody@127.0.0.1:1/none"];

  const refused = startOnTerminal(t, move);
  await refused.shows("the old database makes every later start refuse. Go on? [y/N]");
  refused.type("n\n");

  assert.equal(await refused.exit, 1);
  assert.match(refused.shown, /nothing was done/);
});
