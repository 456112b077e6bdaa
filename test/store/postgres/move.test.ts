import assert from "node:assert/strict";
import { copyFileSync, existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, test, type TestContext } from "node:test";

import fc from "fast-check";

import { MoveError } from "../../../src/store/move/report.ts";
import { moveToFile } from "../../../src/store/move/to-file.ts";
import { moveToServer } from "../../../src/store/move/to-server.ts";
import { migrateDatabase } from "../../../src/store/postgres/machine/migrate.ts";
import { reachServer } from "../../../src/store/postgres/machine/reach-server.ts";
import { parseServerAddress } from "../../../src/store/postgres/machine/server-address.ts";
import { openPostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { openReader, openWriter } from "../../../src/store/sqlite/machine/connection.ts";
import { InstanceLock } from "../../../src/store/sqlite/machine/instance-lock.ts";
import { markMoved } from "../../../src/store/sqlite/machine/moved.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../../helpers/postgres.ts";
import { startProgram } from "../../helpers/program.ts";
import { newEmptyDatabase, newLeaseClaim, openTestStore, seedWorker } from "../../helpers/store.ts";
import { liveRound, newWorld, randomLife } from "../random-life.ts";

const tell = (): void => {};

/** A file to which all kinds of things have happened. */
async function newLivedFile(t: TestContext): Promise<string> {
  const file = await newEmptyDatabase(t);
  const store = await openTestStore(t, { file });
  const world = await newWorld(store);
  const worker = await seedWorker(store);
  const lives = fc.sample(randomLife({ erases: false }), { numRuns: 20, seed: 7 });
  for (const round of lives.flat()) await liveRound(world, round);
  await store.claimLeases(newLeaseClaim(worker, { max: 2 }));
  await store.close();
  return file;
}

/** All rows of all tables of a file, but for those that only say which numbers were given. */
function contentOf(file: string): Readonly<Record<string, readonly string[]>> {
  const connection = openReader(file);
  const tables = connection
    .prepare<[], string>(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
    )
    .pluck()
    .all()
    .filter((name) => name !== "erased_accounts" && name !== "moved");
  const content = tables.map((table) => {
    const columns = connection
      .prepare<[], string>(`SELECT name FROM pragma_table_info('${table}')`)
      .pluck()
      .all()
      // SQLite numbers these rows for itself.
      .filter((name) => !(table === "idempotency_keys" && name === "seq"));
    const rows = connection
      .prepare<[], unknown[]>(`SELECT ${columns.join(", ")} FROM ${table}`)
      .raw();
    return [
      table,
      rows
        .all()
        .map((row) => JSON.stringify(row))
        .toSorted(),
    ] as const;
  });
  connection.close();
  return Object.fromEntries(content);
}

/** Kills a move once it has told of a table. */
async function killAt(
  t: TestContext,
  { from, to, table }: { readonly from: string; readonly to: string; readonly table: string },
): Promise<void> {
  const program = startProgram(t, ["move", "--from", from, "--to", to]);
  await Promise.race([program.says(`${table}: `), program.exit]).catch(() => {});
  program.kill("SIGKILL");
  await program.exit;
}

describe("everything is moved to a server", { skip: reasonToSkipPostgres() }, () => {
  test("and back, and is the same as before, row by row", async (t) => {
    const file = await newLivedFile(t);
    const back = join(dirname(file), "back.db");
    const server = parseServerAddress(await newDatabaseUrl(t));
    const before = contentOf(file);
    for (const table of ["tasks", "task_results", "attempts", "leases", "host_traffic"]) {
      assert.ok((before[table]?.length ?? 0) > 1, table);
    }

    const there = await moveToServer({ file, server, tell });
    const here = await moveToFile({ server, file: back, tell });

    assert.equal(there.tasks, before["tasks"]?.length);
    assert.equal(here.tasks, there.tasks);
    assert.deepEqual(contentOf(back), before);
  });

  test("what is moved opens no more, on either side, and says where it is", async (t) => {
    const file = await newLivedFile(t);
    const back = join(dirname(file), "back.db");
    const server = parseServerAddress(await newDatabaseUrl(t));

    await moveToServer({ file, server, tell });
    await assert.rejects(openTestStore(t, { file }), /was moved to postgres:.* start postbackd/s);
    await moveToFile({ server, file: back, tell });

    const options = { server, role: "tool", notify: true, backlogMax: 1 } as const;
    await assert.rejects(openPostgresStore(options), /was moved to .*back\.db/);
    const store = await openTestStore(t, { file: back });
    assert.equal((await store.listAccounts()).length, 2);
  });

  test("a file that is served, of another version, or for a database with tables is refused and stays", async (t) => {
    const file = await newLivedFile(t);
    const url = await newDatabaseUrl(t);
    const server = parseServerAddress(url);
    const lock = InstanceLock.acquire(file);
    await assert.rejects(moveToServer({ file, server, tell }), /already served/);
    lock.release();

    const old = join(dirname(file), "old.db");
    copyFileSync(file, old);
    const connection = openWriter(old);
    connection.pragma("user_version = 8");
    connection.close();
    await assert.rejects(moveToServer({ file: old, server, tell }), /an older postbackd: start/);

    const other = await newLivedFile(t);
    await moveToServer({ file: other, server, tell });
    await assert.rejects(moveToServer({ file, server, tell }), MoveError);
    assert.ok((await openTestStore(t, { file })).cluster);
  });

  test("a move that is killed wherever it may be is finished by the next one", async (t) => {
    const original = await newLivedFile(t);
    const before = contentOf(original);
    for (const table of ["accounts", "tasks", "ends", "attempts", "task_counts", "host_traffic"]) {
      const file = join(dirname(original), `killed-${table}.db`);
      copyFileSync(original, file);
      const url = await newDatabaseUrl(t);
      await killAt(t, { from: file, to: url, table });

      const server = parseServerAddress(url);
      await moveToServer({ file, server, tell });

      const back = join(dirname(original), `back-${table}.db`);
      await moveToFile({ server, file: back, tell });
      assert.deepEqual(contentOf(back), before, `killed after ${table}`);
    }
  });

  test("goes into tables that were made for it, and into none that anybody has used", async (t) => {
    const file = await newLivedFile(t);
    const server = parseServerAddress(await newDatabaseUrl(t));
    await migrateDatabase(server);

    const { tasks } = await moveToServer({ file, server, tell });

    assert.ok(tasks > 0);
    const used = parseServerAddress(await newDatabaseUrl(t));
    const node = { name: "was here", url: null, version: "0" };
    await openPostgresStore({
      server: used,
      role: "node",
      node,
      notify: false,
      backlogMax: 10,
    }).then((store) => store.close());
    const other = await newLivedFile(t);
    await assert.rejects(moveToServer({ file: other, server: used, tell }), /is in use already/);
  });

  test("a move that was broken off just before its last step is begun again", async (t) => {
    const file = await newLivedFile(t);
    const before = contentOf(file);
    const server = parseServerAddress(await newDatabaseUrl(t));
    const connection = openWriter(file);
    markMoved(connection, { id: "of a move that came to nothing", to: server.shown });
    connection.close();

    assert.equal((await moveToServer({ file, server, tell })).wasComplete, false);
    assert.equal((await moveToServer({ file, server, tell })).wasComplete, true);

    const back = join(dirname(file), "back.db");
    await moveToFile({ server, file: back, tell });
    assert.deepEqual(contentOf(back), before);
  });

  test("a way back that is killed leaves no file of that name, or a complete one", async (t) => {
    const file = await newLivedFile(t);
    const before = contentOf(file);
    const url = await newDatabaseUrl(t);
    const server = parseServerAddress(url);
    await moveToServer({ file, server, tell });
    const back = join(dirname(file), "back.db");
    for (const table of ["accounts", "tasks", "host_traffic"]) {
      await killAt(t, { from: url, to: back, table });
      if (existsSync(back)) assert.deepEqual(contentOf(back), before, `killed after ${table}`);
    }

    if (!existsSync(back)) await moveToFile({ server, file: back, tell });

    assert.deepEqual(contentOf(back), before);
  });

  test("a database that a daemon uses is not moved, and the daemon goes on", async (t) => {
    const file = await newLivedFile(t);
    const server = parseServerAddress(await newDatabaseUrl(t));
    await moveToServer({ file, server, tell });
    const node = { name: "busy", url: null, version: "0" };
    const store = await openPostgresStore({
      server,
      role: "node",
      node,
      notify: true,
      backlogMax: 10,
    });
    t.after(() => store.close());

    const back = join(dirname(file), "back.db");
    await assert.rejects(moveToFile({ server, file: back, tell }), /these daemons use .*: busy/);

    assert.equal(existsSync(back), false);
    const { connection } = await reachServer(server, 5000);
    const found = await connection.get<{ moved: string | null }>(
      "SELECT moved_to AS moved FROM schema_version",
    );
    await connection.close();
    assert.equal(found?.moved, null);
  });
});
