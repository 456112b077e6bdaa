import { createInterface } from "node:readline";

import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { StoreError } from "../../src/store/store.ts";
import { newAccount } from "../helpers/store.ts";

/**
 * A process that serves a store to a test: given the database file, it says `ready`; for each line it then
 * gets, a login, it makes that account and says how that ended.
 */

const [file = ""] = process.argv.slice(2);
const store = await openSqliteStore({ file, writer: "thread", backlogMax: 100 });
say("ready");
for await (const login of createInterface({ input: process.stdin })) {
  say(await create(login));
}

async function create(login: string): Promise<string> {
  try {
    return await store.createAccount(newAccount({ login }));
  } catch (error) {
    return error instanceof StoreError ? `StoreError ${error.kind}` : String(error);
  }
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
