import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { makeBackup } from "../../src/store/sqlite/backup.ts";
import { checkCopy } from "../../src/store/sqlite/copy-check.ts";
import { refuseDamagedFile } from "../../src/store/sqlite/machine/file-check.ts";
import { CopyPace, newStopFlag } from "../../src/store/sqlite/machine/snapshot-copy.ts";
import { restoreCopy } from "../../src/store/sqlite/restore.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { newAccount, newDatabaseFile, pluck } from "../helpers/store.ts";

const PROGRAM = new URL("./killed-backup.ts", import.meta.url).pathname;
// Both do about twenty changes; a test that never ends would hide that something is wrong.
const POINTS_MAX = 60;

const NOW = Date.parse("2030-01-31T09:00:00.000Z");

interface Step {
  readonly step: "create" | "restore";
  readonly database: string;
  readonly copy: string;
}

/** Runs a step that is killed at its n-th change; true when it came to its end before. */
async function isDoneBefore(n: number, { step, database, copy }: Step): Promise<boolean> {
  const args = [PROGRAM, step, database, copy, String(n)];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
  const [code, signal] = (await once(child, "exit")) as [number | null, string | null];
  assert(code === 0 || signal === "SIGKILL", `it ended with ${code ?? signal}`);
  return code === 0;
}

async function create(database: string, file: string): Promise<void> {
  const order = { database, file, mayReplace: true, isServedHere: false, now: NOW };
  await makeBackup(order, new CopyPace(newStopFlag()));
}

async function addAccounts(file: string, logins: readonly string[]): Promise<void> {
  const store = await openSqliteStore({ file, writer: "inline", backlogMax: 100 });
  for (const login of logins) await store.createAccount(newAccount({ login }));
  await store.close();
}

/** The logins in a database that is not damaged. */
async function loginsIn(file: string): Promise<readonly string[]> {
  const store = await openSqliteStore({ file, writer: "inline", backlogMax: 100 });
  const accounts = await store.listAccounts();
  await store.close();
  return pluck(accounts, "login");
}

/** A copy of a database with `ada`, and beside it the database, in which `bob` is too. */
async function newPair(
  t: TestContext,
): Promise<{ readonly database: string; readonly copy: string }> {
  const database = newDatabaseFile(t);
  const copy = `${database}.copy`;
  await addAccounts(database, ["ada"]);
  await create(database, copy);
  await addAccounts(database, ["bob"]);
  return { database, copy };
}

test("a backup killed at any point leaves the old or the new copy, and no other file", async (t) => {
  const { database, copy } = await newPair(t);
  const old = checkCopy(copy).sha256;
  const folder = `${database}.killed`;
  const seen = new Set<string>();
  let n = 1;
  for (let isDone = false; !isDone; n++) {
    assert(n < POINTS_MAX);
    mkdirSync(folder, { recursive: true });
    const file = join(folder, `${n}.db`);
    copyFileSync(copy, file);
    copyFileSync(`${copy}.json`, `${file}.json`);

    isDone = await isDoneBefore(n, { step: "create", database, copy: file });

    const found = checkCopy(file);
    seen.add(found.sha256 === old ? "old" : `new, ${found.document === null ? "alone" : "whole"}`);
    await create(database, file);
    assert.deepEqual(
      readdirSync(folder).filter((name) => name.startsWith(`${n}.db`)),
      [`${n}.db`, `${n}.db.json`],
    );
  }
  assert.deepEqual([...seen].toSorted(), ["new, alone", "new, whole", "old"]);
  assert(n > 10);
});

test("a restore killed at any point leaves the old database whole and can be repeated", async (t) => {
  const { database, copy } = await newPair(t);
  const seen = new Set<string>();
  let n = 1;
  for (let isDone = false; !isDone; n++) {
    assert(n < POINTS_MAX);
    const file = `${database}.${n}`;
    copyFileSync(database, file);

    isDone = await isDoneBefore(n, { step: "restore", database: file, copy });

    const aside = `${file}.replaced-20300131T090000Z`;
    // The next start of the daemon must not find an empty database.
    if (!existsSync(file)) assert.throws(() => refuseDamagedFile(file), /a restore was broken off/);
    seen.add(existsSync(file) ? (await loginsIn(file)).join() : "set aside");
    const kept = existsSync(aside) ? aside : file;
    assert.deepEqual(await loginsIn(kept), ["ada", "bob"]);
    await restoreCopy({ copy, database: file, decide: async () => "resume", now: NOW, user: "me" });
    assert.deepEqual(await loginsIn(file), ["ada"]);
  }
  assert.deepEqual([...seen].toSorted(), ["ada", "ada,bob", "set aside"]);
});
