import assert from "node:assert/strict";
import { copyFileSync, existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type TestContext, describe, test } from "node:test";

import fc from "fast-check";

import { findFaults } from "../../../scripts/kit/postgres-faults.ts";
import { messageOf } from "../../../src/domain/error.ts";
import type { TellProgress } from "../../../src/domain/log.ts";
import { MoveError } from "../../../src/store/move/sides.ts";
import { moveToFile } from "../../../src/store/move/to-file.ts";
import { moveToServer } from "../../../src/store/move/to-server.ts";
import { migrateDatabase } from "../../../src/store/postgres/machine/migrate.ts";
import { parseServerAddress } from "../../../src/store/postgres/machine/server-address.ts";
import { openReader, openWriter } from "../../../src/store/sqlite/machine/connection.ts";
import { InstanceLock } from "../../../src/store/sqlite/machine/instance-lock.ts";
import { markMoved } from "../../../src/store/sqlite/machine/schema.ts";
import { askDatabase, openNode, openSession } from "../../helpers/postgres-nodes.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../../helpers/postgres.ts";
import { runProgram, startProgram } from "../../helpers/program.ts";
import {
  newDatabaseFile,
  newEmptyDatabase,
  newLeaseClaim,
  openTestStore,
  seedWorker,
} from "../../helpers/store.ts";
import { liveRound, newWorld, randomLife } from "../random-life.ts";

const tell = (): void => {};
const MIB = 1024 * 1024;

let lived: Buffer | null = null;

/** A file to which all kinds of things have happened, a server, and the path for the way back. */
async function openSides(t: TestContext) {
  const url = await newDatabaseUrl(t);
  const file = await newLivedFile(t);
  const back = join(dirname(file), "back.db");
  return { file, url, server: parseServerAddress(url), back };
}

async function newLivedFile(t: TestContext): Promise<string> {
  const file = newDatabaseFile(t);
  lived ??= await live(t);
  writeFileSync(file, lived, { mode: 0o600 });
  return file;
}

async function live(t: TestContext): Promise<Buffer> {
  const file = await newEmptyDatabase(t);
  const store = await openTestStore(t, { file });
  const world = await newWorld(store);
  const worker = await seedWorker(store);
  const lives = fc.sample(randomLife({ erases: false }), { numRuns: 20, seed: 7 });
  for (const round of lives.flat()) await liveRound(world, round);
  await store.claimLeases(newLeaseClaim(worker, { max: 2 }));
  await store.close();
  seedRest(file);
  return readFileSync(file);
}

/** Rows and columns that no life fills. */
function seedRest(file: string): void {
  const connection = openWriter(file);
  connection.exec(`
    UPDATE tasks SET trace_text = '{"traceparent":"' || id || '"}';
    INSERT INTO delivery_pauses (account_seq, host, since, reason, paused_by)
    SELECT max(seq), 'a.example', 5, 'maintenance', 'root' FROM accounts UNION ALL SELECT NULL, NULL, 6, NULL, 'root';
    INSERT INTO audit (at, actor_kind, actor_name, action, subject, details_text, address)
    VALUES (7, 'user', 'root', 'delivery.paused', NULL, '{"host":"a.example"}', NULL), (8, 'nobody', NULL, 'x', 'y', NULL, '::1');`);
  connection.close();
}

/** All rows of a file, without the tables that only have used numbers. */
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

/** Kills a move during a table. */
async function killAt(
  t: TestContext,
  { from, to, table }: { readonly from: string; readonly to: string; readonly table: string },
): Promise<void> {
  const program = startProgram(t, ["move", "--from", from, "--to", to]);
  await Promise.race([program.says(`${table}: `), program.exit]).catch(() => {});
  program.kill("SIGKILL");
  await program.exit;
}

/**
 * Has a move fail at the first table, then at the second, and so on until it succeeds; returns how
 * often it failed.
 */
async function failEverywhere(move: (tellOf: TellProgress) => Promise<unknown>): Promise<number> {
  for (let failAt = 1; ; failAt++) {
    const tables = new Set<string>();
    const moved = move(({ part }) => {
      tables.add(part);
      if (tables.size === failAt) throw new Error("broken off");
    });
    const error: unknown = await moved.then(
      () => null,
      (reason: unknown) => reason,
    );
    if (error === null) return failAt - 1;
    assert.match(messageOf(error), /broken off/);
  }
}

describe("everything is moved to a server", { skip: reasonToSkipPostgres() }, () => {
  test("a move and a move back keep every row", async (t) => {
    const { file, url, server, back } = await openSides(t);
    const before = contentOf(file);
    for (const table of [
      "tasks",
      "task_results",
      "attempts",
      "leases",
      "host_traffic",
      "audit",
      "delivery_pauses",
    ]) {
      assert.ok((before[table]?.length ?? 0) > 1, table);
    }

    const there = await moveToServer({ file, server, tell });
    assert.deepEqual(await findFaults(url, { erases: true }), []);
    const here = await moveToFile({ server, file: back, tell });

    assert.equal(there.tasks, before["tasks"]?.length);
    assert.equal(here.tasks, there.tasks);
    assert.deepEqual(contentOf(back), before);
  });

  test("a NUL in any text is moved as another character of one byte", async (t) => {
    const { file, server, back } = await openSides(t);
    const connection = openWriter(file);
    const texts = {
      tasks: ["type", "tag", "status_message"],
      attempts: ["error", "response_excerpt", "retry_after"],
      host_failures: ["error"],
      keys: ["label"],
      delivery_pauses: ["reason", "paused_by"],
    };
    for (const [table, columns] of Object.entries(texts)) {
      for (const column of columns) {
        connection.exec(`UPDATE ${table} SET ${column} = 'a' || char(0) || ${column}`);
      }
    }
    connection.exec(`
      INSERT INTO audit (at, actor_kind, actor_name, action, subject)
      VALUES (9, 'user', 'a' || char(0), 'x', char(0))`);
    connection.close();
    const before = JSON.stringify(contentOf(file));

    await moveToServer({ file, server, tell });
    await moveToFile({ server, file: back, tell });

    // JSON twice: once for each row, once for all.
    assert.ok(before.includes("\\\\u0000"));
    assert.equal(JSON.stringify(contentOf(back)), before.replaceAll("\\\\u0000", "\\\\u001a"));
  });

  test("a refused row is named with its table, and both sides stay", async (t) => {
    const { file, server } = await openSides(t);
    const connection = openWriter(file);
    const seq = connection
      .prepare<[], number>("SELECT max(seq) FROM attempts WHERE ended_at > 0")
      .pluck()
      .get();
    connection.exec(`UPDATE attempts SET retry = ${2 ** 40} WHERE seq = ${seq}`);
    const before = contentOf(file);

    await assert.rejects(moveToServer({ file, server, tell }), (error) => {
      assert.ok(error instanceof MoveError);
      assert.match(error.message, new RegExp(`attempts\\b.*\\b${seq}\\b`));
      return true;
    });

    assert.deepEqual(contentOf(file), before);
    connection.exec(`UPDATE attempts SET retry = 0 WHERE seq = ${seq}`);
    connection.close();
    await moveToServer({ file, server, tell });
  });

  test("a moved database opens on neither side, and the error names the other side", async (t) => {
    const { file, url, server, back } = await openSides(t);
    await moveToServer({ file, server, tell });
    await assert.rejects(openTestStore(t, { file }), /was moved to postgres:.* start postbackd/s);
    await moveToFile({ server, file: back, tell });
    await assert.rejects(openNode(t, url, { kind: "tool" }), /was moved to .*back\.db/);
    const store = await openTestStore(t, { file: back });
    assert.equal((await store.listAccounts()).length, 2);
  });

  test("a file that is served, of another version, or for a database with tables is refused and stays", async (t) => {
    const { file, server } = await openSides(t);
    const lock = InstanceLock.acquire(file);
    await assert.rejects(moveToServer({ file, server, tell }), /already served/);
    lock.release();

    const old = join(dirname(file), "old.db");
    copyFileSync(file, old);
    const connection = openWriter(old);
    connection.pragma("user_version = 8");
    connection.close();
    await assert.rejects(
      moveToServer({ file: old, server, tell }),
      /before 0\.1\.0.*: move it aside/,
    );

    const other = await newLivedFile(t);
    await moveToServer({ file: other, server, tell });
    await assert.rejects(moveToServer({ file, server, tell }), MoveError);
    assert.ok((await openTestStore(t, { file })).cluster);
  });

  test("a file of 'postbackd dev', which no daemon would serve from there, is refused and stays", async (t) => {
    const { file, server } = await openSides(t);
    const store = await openTestStore(t, { file });
    await store.keepSecret({ name: "mode", fresh: "dev" });
    await store.close();
    const before = contentOf(file);
    await assert.rejects(moveToServer({ file, server, tell }), /was made by 'postbackd dev'/);
    assert.deepEqual(contentOf(file), before);
  });

  test("a killed move is finished by the next move", async (t) => {
    const original = await newLivedFile(t);
    const before = contentOf(original);
    for (const table of ["tasks", "host_traffic"]) {
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

  test("a move that fails at any table, either way, leaves both sides as they were", async (t) => {
    const { file, server, back } = await openSides(t);
    const before = contentOf(file);
    const there = await failEverywhere((tellOf) => moveToServer({ file, server, tell: tellOf }));
    assert.ok(there >= 15, `${there} tables`);
    const here = await failEverywhere((tellOf) => moveToFile({ server, file: back, tell: tellOf }));
    assert.ok(here >= 15, `${here} tables`);
    assert.deepEqual(contentOf(back), before);
  });

  test("a move accepts new tables and refuses used tables", async (t) => {
    const { file, server } = await openSides(t);
    await migrateDatabase(server);

    const { tasks } = await moveToServer({ file, server, tell });

    assert.ok(tasks > 0);
    const other = await openSides(t);
    await (await openNode(t, other.url)).close();
    await assert.rejects(moveToServer({ ...other, tell }), /is in use already/);
  });

  // A waiting move would exceed this time.
  test(
    "a move does not wait for locked tables of other schemas",
    { timeout: 60_000 },
    async (t) => {
      const holder = await openSession(t, await newDatabaseUrl(t));
      await holder.query("CREATE TABLE held (number int)");
      await holder.query("BEGIN; LOCK TABLE held");
      const { file, server } = await openSides(t);

      const { tasks } = await moveToServer({ file, server, tell });

      assert.ok(tasks > 0);
    },
  );

  test("a move that was broken off just before its last step is begun again", async (t) => {
    const { file, server, back } = await openSides(t);
    const before = contentOf(file);
    const connection = openWriter(file);
    markMoved(connection, { id: "of a move that came to nothing", to: server.shown });
    connection.close();
    assert.equal((await moveToServer({ file, server, tell })).wasComplete, false);
    assert.equal((await moveToServer({ file, server, tell })).wasComplete, true);
    await moveToFile({ server, file: back, tell });
    assert.deepEqual(contentOf(back), before);
  });

  test("a file whose move was broken off can be served after another node used the database", async (t) => {
    const { file, url, server } = await openSides(t);
    const connection = openWriter(file);
    markMoved(connection, { id: "of a move that came to nothing", to: server.shown });
    connection.close();
    await openNode(t, url);
    await assert.rejects(moveToServer({ file, server, tell }), /is in use already/);
    assert.equal((await (await openTestStore(t, { file })).listAccounts()).length, 2);
  });

  test("neither to nor from tables of a version that the program is not of", async (t) => {
    const { file, url, server, back } = await openSides(t);
    await migrateDatabase(server);

    await askDatabase(url, "UPDATE schema_version SET version = version + 1");
    const newer = /were made by a newer postbackd: move with that/;
    await assert.rejects(moveToServer({ file, server, tell }), newer);
    await assert.rejects(moveToFile({ server, file: back, tell }), newer);
    await askDatabase(url, "UPDATE schema_version SET version = 0");
    const older = /of an older version: run 'postbackd database migrate' first/;
    await assert.rejects(moveToFile({ server, file: back, tell }), older);
    assert.equal(existsSync(back), false);
  });

  test("large rows take no more memory, and no more of a -wal, than a few of them", async (t) => {
    const file = await newLivedFile(t);
    const connection = openWriter(file);
    const count = connection
      .prepare("INSERT OR REPLACE INTO task_inputs SELECT seq, ? FROM tasks LIMIT 24")
      .run(JSON.stringify("x".repeat(4 * MIB))).changes;
    connection.close();
    assert.equal(count, 24);
    const before = contentOf(file);
    const url = await newDatabaseUrl(t);
    const back = join(dirname(file), "back.db");

    const env = { NODE_OPTIONS: "--max-old-space-size=64" };
    const there = await runProgram(t, ["move", "--from", file, "--to", url], { env });
    assert.equal(there.code, 0, there.stderr);
    const wals: number[] = [];
    await moveToFile({
      server: parseServerAddress(url),
      file: back,
      tell: () => wals.push(statSync(`${back}.moving-wal`).size),
    });
    assert.ok(Math.max(...wals) < 80 * MIB, wals.join());
    assert.deepEqual(contentOf(back), before);

    await askDatabase(url, "UPDATE schema_version SET moved_to = NULL");
    const again = join(dirname(file), "again.db");
    const here = await runProgram(t, ["move", "--from", url, "--to", again], { env });
    assert.equal(here.code, 0, here.stderr);
    assert.deepEqual(contentOf(again), before);
  });

  test("a database that a daemon uses is not moved, and the daemon goes on", async (t) => {
    const { file, url, server, back } = await openSides(t);
    await moveToServer({ file, server, tell });
    await openNode(t, url, { node: { name: "busy", url: null, version: "0" } });

    await assert.rejects(moveToFile({ server, file: back, tell }), /these daemons use .*: busy/);

    assert.equal(existsSync(back), false);
    const found = await askDatabase(url, "SELECT moved_to FROM schema_version");
    assert.deepEqual(found, [{ moved_to: null }]);
  });
});
