import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import {
  InstanceLock,
  InstanceLockError,
  readHolder,
} from "../../src/store/sqlite/machine/instance-lock.ts";
import { newDatabaseFile } from "../helpers/store.ts";

interface LockProcess {
  readonly pid: number;
  /** Its outcome. */
  readonly said: string;
  /** Kills it as the kernel or an operator in a hurry would. */
  kill(): Promise<void>;
}

/** Takes the lock of a file, announces the URL, and holds the lock until its end. */
const HOLD = `
  const { InstanceLock } = await import(${JSON.stringify(import.meta.resolve("../../src/store/sqlite/machine/instance-lock.ts"))});
  const [, file, url] = process.argv;
  try {
    const lock = InstanceLock.acquire(file);
    if (url !== "") lock.announce(url);
    process.stdin.resume().once("end", () => lock.release());
    process.stdout.write("held");
  } catch (error) {
    process.stdout.write(String(error));
  }`;

async function startLockProcess(
  t: TestContext,
  file: string,
  { url }: { readonly url?: string } = {},
): Promise<LockProcess> {
  const child = spawn(process.execPath, ["--input-type=module", "-e", HOLD, file, url ?? ""], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  t.after(() => child.kill("SIGKILL"));
  const [said] = await once(child.stdout, "data");
  return {
    pid: child.pid ?? 0,
    said: String(said).trim(),
    kill: async () => {
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  };
}

function acquire(t: TestContext, file: string): InstanceLock {
  const lock = InstanceLock.acquire(file);
  t.after(() => lock.release());
  return lock;
}

function refusalOf(file: string): InstanceLockError {
  try {
    InstanceLock.acquire(file).release();
  } catch (error) {
    assert(error instanceof InstanceLockError, String(error));
    return error;
  }
  throw new Error("the lock was given");
}

test("a second process is refused with the pid and URL of the first until the first is killed", async (t) => {
  const file = newDatabaseFile(t);
  const url = "http://127.0.0.1:8089/";
  const holder = await startLockProcess(t, file, { url });
  assert.equal(holder.said, "held");
  const refusal = refusalOf(file);
  assert.deepEqual(refusal.holder, { pid: holder.pid, url });
  assert(refusal.message.includes(`process ${holder.pid} at ${url}`), refusal.message);
  assert(refusal.message.startsWith(`${file} is already served by`), refusal.message);
  assert.match((await startLockProcess(t, file)).said, /^InstanceLockError: .* is already served/);
  await holder.kill();
  acquire(t, file);
  assert.deepEqual(readHolder(file), { pid: process.pid, url: null });
});

test("the lock file names its holder, which announcements and a release keep", (t) => {
  const file = newDatabaseFile(t);
  assert.equal(readHolder(file), null);
  writeFileSync(`${file}.lock`, "");
  assert.equal(readHolder(file), null);
  const lock = InstanceLock.acquire(file);
  for (const url of [null, "http://127.0.0.1:1/", "http://127.0.0.1:2/"]) {
    if (url !== null) lock.announce(url);
    const holder = { pid: process.pid, url };
    assert.deepEqual([readHolder(file), refusalOf(file).holder], [holder, holder]);
  }
  lock.release();
  assert.equal(readHolder(file)?.url, "http://127.0.0.1:2/");
  acquire(t, file);
  assert.equal(readHolder(file)?.url, null);
});

// `health --wait` asks for the holder again and again while the daemon starts.
test("a read of the holder's name does not block the lock", async (t) => {
  const file = newDatabaseFile(t);
  const lock = acquire(t, file);
  const script = `
    import Database from "better-sqlite3";
    const reader = new Database(process.argv[1], { readonly: true });
    reader.exec("BEGIN");
    reader.prepare("SELECT pid FROM holder").all();
    process.stdout.write("reading");
    setTimeout(() => reader.exec("ROLLBACK"), 50);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script, `${file}.lock`], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(child.stdout, "data");

  lock.announce("http://127.0.0.1:1/");

  assert.deepEqual(readHolder(file), { pid: process.pid, url: "http://127.0.0.1:1/" });
  if (child.exitCode === null) await once(child, "exit");
});

// A collected connection is closed, and its lock with it.
test("the lock survives the garbage collection of its object", async (t) => {
  const file = newDatabaseFile(t);
  setFlagsFromString("--expose-gc");
  const collectGarbage: unknown = runInNewContext("gc");
  assert(typeof collectGarbage === "function");
  acquireAndForget(file);
  for (let i = 0; i < 2; i++) {
    collectGarbage();
    // Finalizers run in a turn of their own.
    await turn();
  }
  assert.equal(refusalOf(file).holder?.pid, process.pid);
});

function acquireAndForget(file: string): void {
  InstanceLock.acquire(file);
}

test("the lock file is readable only by its owner", (t) => {
  const umask = process.umask(0o022);
  t.after(() => process.umask(umask));
  const file = newDatabaseFile(t);
  acquire(t, file);
  assert.equal((statSync(`${file}.lock`).mode & 0o777).toString(8), "600");
});

test("a symbolic link to the file has the same lock", async (t) => {
  const file = newDatabaseFile(t);
  writeFileSync(file, "");
  const link = `${file}.link`;
  symlinkSync(file, link);
  const first = await startLockProcess(t, file);
  assert.throws(() => InstanceLock.acquire(link), InstanceLockError);
  assert.equal(readHolder(link)?.pid, first.pid);
});

test("a lock file that is a link is refused, and its target is not created", (t) => {
  const file = newDatabaseFile(t);
  const target = `${file}.elsewhere`;
  symlinkSync(target, `${file}.lock`);
  assert.throws(() => InstanceLock.acquire(file), /\.lock is a symbolic link/);
  assert.equal(existsSync(target), false);
});
