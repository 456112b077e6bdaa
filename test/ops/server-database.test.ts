import assert from "node:assert/strict";
import { chmodSync, mkdirSync, readdirSync, statSync, symlinkSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { systemClock } from "../../src/domain/clock/clock.ts";
import { nodeNameOf } from "../../src/domain/lease/lease.ts";
import { DatabaseError, databaseOf } from "../../src/ops/database-of.ts";
import { askHealth } from "../../src/ops/health.ts";
import { pidNamespace } from "../../src/run/processes.ts";
import { loaded } from "../helpers/config.ts";
import { afterwards, tempFolder } from "../helpers/daemon.ts";
import { askDatabase, eventually } from "../helpers/postgres-nodes.ts";
import { reasonToSkipPostgres, startPostgres } from "../helpers/postgres.ts";

// Nothing listens on port 1, and no test connects.
const SERVER = "postgres://app:s3cr3t@127.0.0.1:1/jobs";

function configOf(folder: string, { name = "east", db = SERVER, port = "0" } = {}) {
  const env = { POSTBACKD_NODE_STATE_FOLDER: folder };
  return loaded({ env, flags: { db, port, "node-name": name } });
}

/** Makes the state folder of nodes that are given none a folder of this test. */
function withTemporaryFolder(t: TestContext): string {
  const folder = tempFolder(t);
  const before = process.env["TMPDIR"];
  process.env["TMPDIR"] = folder;
  afterwards(t, () => {
    if (before === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = before;
  });
  return folder;
}

test("two daemons of one PostgreSQL on a machine need two names", (t) => {
  const folder = tempFolder(t);
  const first = databaseOf(configOf(folder)).lock();
  t.after(() => first.release());
  first.announce("http://127.0.0.1:8787");

  assert.throws(
    () => databaseOf(configOf(folder)).lock(),
    (error) => {
      assert.ok(error instanceof DatabaseError);
      assert.match(
        error.message,
        /^a node east of postgres:\/\/app@127\.0\.0\.1:1\/jobs runs on this machine already: process \d+ at http/,
      );
      assert.match(error.message, /a name of its own with --node-name$/);
      return true;
    },
  );
  databaseOf(configOf(folder, { name: "west" }))
    .lock()
    .release();
  databaseOf(configOf(folder, { db: `${SERVER}2` }))
    .lock()
    .release();
  assert.deepEqual(databaseOf(configOf(folder)).holder(), {
    pid: process.pid,
    url: "http://127.0.0.1:8787",
  });
});

test("a changed password keeps the identity of a node", (t) => {
  const folder = tempFolder(t);
  const owner = databaseOf(configOf(folder)).commandOwner();

  const changed = configOf(folder, { db: SERVER.replace("s3cr3t", "another") });
  assert.equal(databaseOf(changed).commandOwner(), owner);
  // The same number means another process in another container.
  assert.match(owner, new RegExp(`^node-east-[0-9a-f]{12}-${pidNamespace()}$`));
});

test("by default a node has the machine's name and a private state folder", (t) => {
  const folder = withTemporaryFolder(t);
  const database = databaseOf(loaded({ flags: { db: SERVER } }));
  database.lock().release();

  const [made = "", ...others] = readdirSync(folder);
  assert.match(made, /^postbackd-\d+$/);
  assert.deepEqual(others, []);
  assert.equal(statSync(join(folder, made)).mode & 0o777, 0o700);
  const name = nodeNameOf(hostname());
  assert.ok(database.commandOwner().startsWith(`node-${name}-`));
});

test("a state folder that another user could write to is refused", (t) => {
  const folder = withTemporaryFolder(t);
  const own = join(folder, `postbackd-${process.geteuid?.()}`);
  const elsewhere = join(folder, "elsewhere");
  const database = databaseOf(loaded({ flags: { db: SERVER } }));
  const refusal =
    /not a folder that this user alone may write; name another with node\.state_folder/;

  mkdirSync(elsewhere, { mode: 0o700 });
  symlinkSync(elsewhere, own);
  assert.throws(() => database.lock(), refusal);
  assert.deepEqual(readdirSync(elsewhere), []);

  const wide = withTemporaryFolder(t);
  mkdirSync(join(wide, `postbackd-${process.geteuid?.()}`));
  chmodSync(join(wide, `postbackd-${process.geteuid?.()}`), 0o777);
  assert.throws(() => database.lock(), refusal);
});

test("a state folder that cannot be made is named", () => {
  const database = databaseOf(configOf("/dev/null/state"));

  assert.throws(() => database.lock(), {
    name: "DatabaseError",
    message:
      "the state folder /dev/null/state cannot be used: it cannot be made (ENOTDIR); name another with node.state_folder",
  });
});

test("PostgreSQL has no sizes and no disk limit here", async (t) => {
  const database = databaseOf(configOf(tempFolder(t)));

  assert.equal(database.freeBytes(), Number.POSITIVE_INFINITY);
  const { bytes, walBytes, diskFreeBytes, diskTotalBytes } = await database.sizes();
  assert.deepEqual([bytes, walBytes, diskFreeBytes, diskTotalBytes], [null, null, null, null]);
  assert.equal(database.clearWal(), true);
});

test("health uses the URL in the node's lock, then the configured address", async (t) => {
  const folder = tempFolder(t);
  const ask = (port: string) =>
    askHealth({
      config: configOf(folder, { port }),
      clock: systemClock,
      url: null,
      timeoutMs: 5000,
      isPatient: false,
    });

  const unknown = await ask("0");
  assert.match(
    unknown.kind === "ready" ? "" : unknown.reason,
    /^no daemon of postgres:\/\/app@127\.0\.0\.1:1\/jobs holds a lock on this machine.*--url$/,
  );
  const guessed = await ask("1");
  assert.equal(guessed.url, "http://127.0.0.1:1");
  assert.match(
    guessed.kind === "ready" ? "" : guessed.reason,
    /refused.*where it is configured to listen.*name another with --url$/,
  );
  const lock = databaseOf(configOf(folder)).lock();
  t.after(() => lock.release());
  lock.announce("http://127.0.0.1:2");
  assert.equal((await ask("1")).url, "http://127.0.0.1:2");
});

test(
  "a daemon does not start while no commit would be acknowledged, and a command reads",
  { skip: reasonToSkipPostgres() },
  async (t) => {
    const server = await startPostgres(t);
    const database = databaseOf(configOf(tempFolder(t), { db: server.url }));
    const log = { debug() {}, info() {}, warn() {}, error() {} };
    const parts = { mode: "start", log, clock: systemClock, giveWay: () => {} } as const;
    await (await database.openDaemonStore(parts)).close();
    server.reload({ synchronous_standby_names: "gone" });
    await eventually("reloaded", async () => {
      const [row] = await askDatabase(server.url, "SHOW synchronous_standby_names");
      return row?.["synchronous_standby_names"] === "gone";
    });

    await assert.rejects(database.openDaemonStore(parts), (error) => {
      assert.ok(error instanceof DatabaseError);
      assert.match(error.message, /^no write is acknowledged: PostgreSQL waits for a standby/);
      return true;
    });
    const { store } = await database.openAdminStore({ mayCreate: false });
    assert.equal((await store.listNodes()).length, 2);
    await store.close();
  },
);
