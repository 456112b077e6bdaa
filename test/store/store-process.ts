import { createInterface } from "node:readline";

import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { StoreError } from "../../src/store/store.ts";
import { newAccount, newPost, newTask } from "../helpers/store.ts";

/**
 * A process that serves a store to a test: given the database file, it says `ready`; for each line it then
 * gets, a login, it makes that account and says how that ended; for `post BYTES` it posts a task with so large an
 * input.
 */

const [file = ""] = process.argv.slice(2);
const store = await openSqliteStore({ file, writer: "thread", backlogMax: 100 });
say("ready");
for await (const line of createInterface({ input: process.stdin })) {
  say(await write(line));
}

async function write(line: string): Promise<string> {
  const bytes = /^post (\d+)$/.exec(line)?.[1];
  try {
    if (bytes === undefined) return await store.createAccount(newAccount({ login: line }));
    const inputText = JSON.stringify("x".repeat(Number(bytes)));
    await store.insertTasks(newPost(1, [newTask({ inputText })]));
    return "posted";
  } catch (error) {
    return error instanceof StoreError ? `StoreError ${error.kind}` : String(error);
  }
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
