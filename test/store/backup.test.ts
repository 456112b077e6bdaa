import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  fstatSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";

import { makeBackup } from "../../src/store/sqlite/backup.ts";
import { checkCopy } from "../../src/store/sqlite/copy-check.ts";
import { refuseDamagedFile } from "../../src/store/sqlite/machine/file-check.ts";
import {
  CopyPace,
  newStopFlag,
  removeGradually,
} from "../../src/store/sqlite/machine/snapshot-copy.ts";
import { restoreCopy } from "../../src/store/sqlite/restore.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { tempFolder } from "../helpers/daemon.ts";
import { newAccount, newDatabaseFile, pluck } from "../helpers/store.ts";

const BYTES = 20 * 1024 ** 2;

function largeFile(t: TestContext): string {
  const file = join(tempFolder(t), "copy.db");
  writeFileSync(file, Buffer.alloc(BYTES, 1));
  return file;
}

/** Records the size and the name of the file at each call, and never hurries. */
function watching(file: string, t: TestContext) {
  const descriptor = openSync(file, "r");
  t.after(() => closeSync(descriptor));
  const seen: { readonly bytes: number; readonly hasName: boolean }[] = [];
  const isHurried = (): boolean => {
    seen.push({ bytes: fstatSync(descriptor).size, hasName: existsSync(file) });
    return false;
  };
  return { seen, isHurried, descriptor };
}

test("a removed file loses its name immediately and its space in steps of 8 MiB", async (t) => {
  const file = largeFile(t);
  const { seen, isHurried } = watching(file, t);
  await removeGradually(file, isHurried);
  assert.deepEqual(seen, [
    { bytes: BYTES, hasName: false },
    { bytes: BYTES - 8 * 1024 ** 2, hasName: false },
  ]);
  assert.equal(existsSync(file), false);
});

test("a hurried removal leaves the rest to the kernel", async (t) => {
  const file = largeFile(t);
  const { descriptor } = watching(file, t);
  await removeGradually(file, () => true);
  assert.equal(existsSync(file), false);
  assert.equal(fstatSync(descriptor).size, BYTES);
});

test("a file with a second name keeps its bytes", async (t) => {
  const file = largeFile(t);
  linkSync(file, `${file}.linked`);
  await removeGradually(file, () => false);
  assert.equal(existsSync(file), false);
  assert.equal(statSync(`${file}.linked`).size, BYTES);
  assert.equal(readFileSync(`${file}.linked`).at(-1), 1);
});

test("a read-only file is removed, and a missing file may be removed", async (t) => {
  const file = largeFile(t);
  chmodSync(file, 0o400);
  for (let i = 0; i < 2; i++) {
    await removeGradually(file, () => false);
    assert.equal(existsSync(file), false);
  }
});

test("the removal of a folder is refused", async (t) => {
  const folder = join(tempFolder(t), "copy.db");
  mkdirSync(folder);
  writeFileSync(join(folder, "kept"), "");
  await assert.rejects(
    removeGradually(folder, () => false),
    /EISDIR/,
  );
  assert.equal(existsSync(join(folder, "kept")), true);
});

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
