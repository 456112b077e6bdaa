import assert from "node:assert/strict";
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { test, type TestContext } from "node:test";

import { newDatabaseFile, openTestStore, pluck } from "../helpers/store.ts";

/** Faults of the kernel for a process that serves a store, by strace; skipped if strace may not attach. */

interface Fault {
  /** The failing calls, in strace's format. */
  readonly calls: string;
  /** On which of the store's files: its name's end. */
  readonly path?: "-wal" | "-shm";
  /** The fault and its time, in the format of strace's `inject`. */
  readonly inject: string;
}

// After a failed fsync the kernel may drop what it could not write and report the next fsync as done.
test("no write is acknowledged after a failed fsync", async (t) => {
  const store = await startTracedStore(t);
  await store.say("before");
  const tracer = await store.trace({ calls: "fsync,fdatasync", inject: "error=EIO:when=1" });
  if (tracer.failure !== null) return t.skip(tracer.failure);

  // The page cache has the first write, the disk may not have it.
  assert.equal(await store.say("first"), "StoreError unknown");
  assert.equal(await store.say("second"), "StoreError failed");
  assert.equal(await store.say("third"), "StoreError failed");

  const { logins } = await store.foundAfterKill();
  assert.equal(logins[0], "before");
  assert.equal(logins.includes("second") || logins.includes("third"), false);
});

for (const error of ["ENOSPC", "EIO"]) {
  test(`${error} while the WAL is written undoes the batch, and the store goes on without a restart`, async (t) => {
    const store = await startTracedStore(t);
    await store.say("before");
    const tracer = await store.trace({ calls: WRITES, path: "-wal", inject: `error=${error}` });
    if (tracer.failure !== null) return t.skip(tracer.failure);
    assert.equal(await store.say("first"), "StoreError full");
    assert.equal(await store.say("second"), "StoreError full");
    await tracer.end();
    assert.equal(await store.say("third"), "created");
    assert.deepEqual((await store.foundAfterKill()).logins, ["before", "third"]);
  });
}

// COMMIT asks for room in the WAL's index when the batch is on disk, and valid, already.
test("a batch refused for a full WAL index is gone after a kill", async (t) => {
  const store = await startTracedStore(t);
  await store.say("before");
  const tracer = await store.trace({ calls: WRITES, path: "-shm", inject: "error=ENOSPC" });
  if (tracer.failure !== null) return t.skip(tracer.failure);
  // More pages than the index has room for as it was made.
  assert.equal(await store.say("post 20000000"), "StoreError full");
  assert.deepEqual(await store.foundAfterKill(), { logins: ["before"], tasks: 0 });
});

const WRITES = "write,pwrite64";

async function startTracedStore(t: TestContext) {
  const file = newDatabaseFile(t);
  const program = new URL("./store-process.ts", import.meta.url).pathname;
  const child = spawn(process.execPath, [program, file], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  t.after(() => child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<unknown> => (await lines.next()).value;
  assert.equal(await next(), "ready");
  return {
    say(line: string): Promise<unknown> {
      child.stdin.write(`${line}\n`);
      return next();
    },
    trace: (fault: Fault) => trace(t, { child, file, fault }),
    /** The content of the file for another process. */
    async foundAfterKill() {
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
      const store = await openTestStore(t, { file });
      const logins = pluck(await store.listAccounts(), "login");
      const { queued } = await store.countWork(null);
      return { logins, tasks: queued };
    },
  };
}

interface Traced {
  readonly child: ChildProcess;
  readonly file: string;
  readonly fault: Fault;
}

/** Makes calls of a process fail until it is ended; `failure` is why that cannot be done, or null. */
async function trace(t: TestContext, { child, file, fault }: Traced) {
  const end = (): Promise<void> => Promise.resolve();
  if (spawnSync("strace", ["-V"], { stdio: "ignore" }).status !== 0) {
    return { failure: "strace is not installed", end };
  }
  const { calls, path, inject } = fault;
  const paths = path === undefined ? [] : ["-P", `${file}${path}`];
  const faults = ["-e", `trace=${calls}`, "-e", `inject=${calls}:${inject}`];
  const tracer = spawn("strace", ["-f", ...paths, ...faults, "-p", String(child.pid)], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  t.after(() => tracer.kill("SIGKILL"));
  const exited = once(tracer, "exit");
  // Read to its end: without a reader strace ends, and its faults with it.
  const said = new Promise<string>((resolve) => {
    let text = "";
    tracer.stderr.on("data", (chunk) => {
      text += String(chunk);
      if (text.includes("attached")) resolve(text);
    });
    tracer.stderr.on("end", () => resolve(text));
  });
  const text = await said;
  if (!text.includes("attached")) {
    return { failure: `strace may not attach: ${text.trim()}`, end };
  }
  return {
    failure: null,
    /** Detaches from the process, which continues without faults. */
    async end(): Promise<void> {
      tracer.kill("SIGINT");
      await exited;
    },
  };
}
