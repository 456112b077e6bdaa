import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { dirname } from "node:path";
import { test, type TestContext } from "node:test";

import { tableLines, type Columns } from "../../src/cli/print.ts";
import { withProgress } from "../../src/cli/terminal.ts";
import {
  progressText,
  progressTexts,
  type TellProgress,
  type WorkProgress,
} from "../../src/domain/log.ts";
import type { Store } from "../../src/store/store.ts";
import { runProgram } from "../helpers/program.ts";
import {
  T0,
  newDatabaseFile,
  newPost,
  newTask,
  openTestStore,
  seedAccount,
} from "../helpers/store.ts";
import { reasonToSkipTerminal, startOnTerminal } from "../helpers/terminal.ts";

interface Host {
  readonly name: string;
  readonly failed: number;
}

const HOSTS: readonly Host[] = [
  { name: "a.example", failed: 1 },
  { name: "hooks.example.com", failed: 20 },
];

const COLUMNS: Columns<Host> = { HOST: ({ name }) => name, "FAILED WEBHOOKS": (row) => row.failed };

test("shows rows in aligned columns where the terminal is wide enough", () => {
  assert.deepEqual(tableLines(HOSTS, COLUMNS, 34), [
    "HOST               FAILED WEBHOOKS",
    "a.example          1",
    "hooks.example.com  20",
  ]);
});

test("shows a block of lines for each row where the terminal is narrower, and cuts nothing", () => {
  assert.deepEqual(tableLines(HOSTS, COLUMNS, 33), [
    "HOST             a.example",
    "FAILED WEBHOOKS  1",
    "",
    "HOST             hooks.example.com",
    "FAILED WEBHOOKS  20",
  ]);
});

test("progress is how many are done, their rate, and the time that the rest takes", () => {
  const tasks = { part: "tasks", done: 120_000, of: 1_000_000 };

  assert.equal(progressText(tasks, 999), "tasks: 120,000 of 1,000,000");
  assert.equal(progressText(tasks, 2400), "tasks: 120,000 of 1,000,000, 50,000/s, 18 s left");
  assert.equal(progressText(tasks, 120_000), "tasks: 120,000 of 1,000,000, 1,000/s, 15 min left");
  assert.equal(
    progressText({ ...tasks, done: 1_000_000 }, 10_000),
    "tasks: 1,000,000 of 1,000,000, 100,000/s",
  );
});

test("each part has a rate of its own, from the end of the one before", () => {
  let now = 0;
  const textOf = progressTexts(() => now);

  now = 10_000;
  assert.equal(textOf({ part: "keys", done: 10, of: 10 }), "keys: 10 of 10, 1/s");
  now = 12_000;
  assert.equal(
    textOf({ part: "tasks", done: 1000, of: 3000 }),
    "tasks: 1,000 of 3,000, 500/s, 4 s left",
  );
  now = 16_000;
  assert.equal(textOf({ part: "tasks", done: 3000, of: 3000 }), "tasks: 3,000 of 3,000, 500/s");
});

test("the rate of slow work is by the minute, and work of unknown size shows no time left", () => {
  const tables = { part: "tables checked", done: 3, of: 23 };

  assert.equal(progressText(tables, 12_000), "tables checked: 3 of 23, 15/min, 80 s left");
  assert.equal(progressText({ ...tables, done: 0 }, 12_000), "tables checked: 0 of 23");
  assert.equal(progressText({ ...tables, of: null }, 3000), "tables checked: 3, 1/s");
});

/** Reports progress to a terminal or to another output. Returns the written text. */
async function writtenTo(terminal: { isTTY?: boolean }, steps: readonly WorkProgress[]) {
  const written: string[] = [];
  const write = (text: string): void => void written.push(text);
  const work = async (tell: TellProgress): Promise<string> => {
    for (const step of steps) tell(step);
    return "the value";
  };
  assert.equal(await withProgress(work, { ...terminal, write }), "the value");
  return written.join("");
}

test("on a terminal a finished part keeps its line, and an unfinished part leaves no line", async () => {
  const keys = { part: "keys", done: 2, of: 2 };
  const tasks = { part: "tasks", done: 1, of: 9 };

  assert.equal(await writtenTo({ isTTY: true }, [keys]), "\r\u001B[Kkeys: 2 of 2\n");
  assert.equal(await writtenTo({ isTTY: true }, [tasks]), "\r\u001B[Ktasks: 1 of 9\r\u001B[K");
});

test("no progress is written without a terminal", async () => {
  assert.equal(await writtenTo({}, [{ part: "keys", done: 2, of: 2 }]), "");
});

test("work that fails leaves no line either", async () => {
  const written: string[] = [];
  const terminal = { isTTY: true, write: (text: string) => written.push(text) };
  const failing = withProgress((tell) => {
    tell({ part: "tasks", done: 1, of: 9 });
    throw new Error("lost");
  }, terminal);

  await assert.rejects(failing, /lost/);
  assert.equal(written.at(-1), "\r\u001B[K");
});

const skip = reasonToSkipTerminal();

interface Seeded {
  readonly database: string;
  readonly store: Store;
  readonly accountId: number;
  readonly ids: readonly string[];
}

/** A file with the disabled account ada and its two tasks. */
async function seed(t: TestContext): Promise<Seeded> {
  const database = newDatabaseFile(t);
  const store = await openTestStore(t, { file: database });
  const accountId = await seedAccount(store, "ada");
  const tasks = [newTask({ inputText: '"0123456789"' }), newTask()];
  await store.insertTasks(newPost(accountId, tasks));
  await store.setAccountDisabled({ login: "ada", disabledAt: T0 });
  return { database, store, accountId, ids: tasks.map(({ id }) => id) };
}

test("account erase on a terminal needs a yes, and shows its progress", { skip }, async (t) => {
  const { database, store } = await seed(t);
  const words = ["admin", "account", "erase", "ada", "--db", database];

  const refused = startOnTerminal(t, words);
  await refused.shows("ada with 2 tasks");
  await refused.shows("[y/N]");
  refused.type("\n");
  assert.equal(await refused.exit, 1);
  assert.notEqual(await store.findAccount("ada"), null);

  const meant = startOnTerminal(t, words);
  await meant.shows("[y/N]");
  meant.type("y\n");
  assert.equal(await meant.exit, 0, meant.shown);
  assert.match(meant.shown, /2 of 2/);
  assert.equal(await store.findAccount("ada"), null);
});

test("Ctrl-C and Ctrl-D at a question end the command", { skip }, async (t) => {
  const { database, store, accountId, ids } = await seed(t);
  const [id = ""] = ids;

  for (const key of ["\u0003", "\u0004"]) {
    const program = startOnTerminal(t, ["admin", "task", "erase", id, "--db", database]);
    await program.shows("12 bytes of input");
    await program.shows("[y/N]");
    program.type(key);
    assert.equal(await program.exit, 1, program.shown);
  }
  assert.notEqual(await store.findTask({ accountId, id }), null);
});

test("no question is shown with --yes or without a terminal", { skip }, async (t) => {
  const { database, store, accountId, ids } = await seed(t);
  const [first = "", second = ""] = ids;
  const words = (id: string): string[] => ["admin", "task", "erase", id, "--db", database];

  const onTerminal = startOnTerminal(t, [...words(first), "--yes"]);
  const inScript = await runProgram(t, words(second));

  assert.equal(await onTerminal.exit, 0, onTerminal.shown);
  assert.doesNotMatch(onTerminal.shown, /y\/N/);
  assert.deepEqual([inScript.code, inScript.stderr], [0, ""]);
  for (const id of ids) assert.equal(await store.findTask({ accountId, id }), null);
});

test(
  "task cancel on a terminal needs a yes for many tasks, and none for one",
  { skip },
  async (t) => {
    const { database, store, accountId, ids } = await seed(t);
    const [id = ""] = ids;
    const cancel = (...words: string[]) =>
      startOnTerminal(t, ["admin", "task", "cancel", ...words, "--db", database]);

    const one = cancel(id);
    assert.equal(await one.exit, 0, one.shown);
    const many = cancel("--account", "ada");
    await many.shows("1 task in the queue");
    await many.shows("[y/N]");
    many.type("n\n");

    assert.equal(await many.exit, 1);
    assert.deepEqual((await store.countWork(accountId)).queued, 1);
  },
);

test("backup shows its progress on a terminal, and restore asks twice", { skip }, async (t) => {
  const { database, store } = await seed(t);
  await store.close();
  const copy = `${database}.copy`;
  const made = startOnTerminal(t, ["backup", "create", copy, "--db", database]);
  assert.equal(await made.exit, 0, made.shown);
  for (const part of ["MiB copied", "tables checked", "MiB read"]) {
    assert.match(made.shown, new RegExp(`${part}: (\\d+) of \\1\\D`));
  }
  const restore = () => startOnTerminal(t, ["backup", "restore", copy, "--db", database]);
  const replaced = (): boolean =>
    readdirSync(dirname(database)).some((name) => name.includes(".replaced-"));

  const refused = restore();
  await refused.shows("2 tasks");
  await refused.shows("[y/N]");
  refused.type("no\n");
  assert.equal(await refused.exit, 1);
  assert.equal(replaced(), false);

  const early = restore();
  await early.shows("[y/N]");
  // Ctrl-D ends the repeated question.
  early.type("pause\n\u0004");
  assert.equal(await early.exit, 1);
  assert.doesNotMatch(early.shown, /cancelled/);
  assert.equal(replaced(), false);

  const meant = restore();
  await meant.shows("[y/N]");
  meant.type("yes\n");
  await meant.shows("[pause/resume]");
  meant.type("pause\n");
  assert.equal(await meant.exit, 0, meant.shown);
  assert.deepEqual([replaced(), existsSync(database)], [true, true]);
});

test("move on a terminal needs a yes", { skip }, async (t) => {
  const { database } = await seed(t);
  const move = ["move", "--from", database, "--to", "postgres://nobody@127.0.0.1:1/none"];

  const refused = startOnTerminal(t, move);
  await refused.shows("[y/N]");
  refused.type("n\n");

  assert.equal(await refused.exit, 1);
});

const ESCAPE = "\u001b[";
const HELP = ["admin", "--help"];

// https://no-color.org: any value but an empty one takes the styles away.
const STYLES = [
  { env: {}, args: HELP, hasStyles: true },
  { env: { NO_COLOR: "" }, args: HELP, hasStyles: true },
  { env: { NO_COLOR: "0" }, args: HELP, hasStyles: false },
  { env: {}, args: ["--no-color", ...HELP], hasStyles: false },
  { env: { TERM: "dumb" }, args: HELP, hasStyles: false },
];

test("headings have styles on a terminal that has them, without NO_COLOR", { skip }, async (t) => {
  for (const { env, args, hasStyles } of STYLES) {
    const program = startOnTerminal(t, args, env);
    assert.equal(await program.exit, 0, program.shown);
    assert.match(program.shown, /Usage/i);
    assert.equal(program.shown.includes(ESCAPE), hasStyles, JSON.stringify(env));
  }
});
