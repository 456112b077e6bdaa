import assert from "node:assert/strict";
import { describe, test } from "node:test";

import type pg from "pg";

import type { DatabaseHealth } from "../../../src/domain/stats/health.ts";
import type { Store } from "../../../src/store/store.ts";
import { askDatabase, eventually, openNode, openSession } from "../../helpers/postgres-nodes.ts";
import {
  reasonToSkipPostgres,
  reasonToSkipStandby,
  startPostgres,
} from "../../helpers/postgres.ts";
import { newPost, newTask, newTaskCancels, pluck, seedAccount } from "../../helpers/store.ts";

/** Has a session see one moment of the database until it commits. */
async function takeSnapshot(client: pg.Client): Promise<void> {
  await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
  await client.query("SELECT 1");
}

async function healthOf(store: Store): Promise<DatabaseHealth> {
  return (await store.findDatabaseHealth()) ?? assert.fail("a server has a health");
}

/** Waits until the health of the database is so, and answers it. */
async function untilHealth(
  store: Store,
  isSo: (health: DatabaseHealth) => boolean,
): Promise<DatabaseHealth> {
  let health = await healthOf(store);
  const look = async () => isSo((health = await healthOf(store)));
  await eventually("the health", look, 20_000);
  return health;
}

/** A user without any right on the server but to have tables of its own. */
async function newPlainUser(url: string): Promise<string> {
  await askDatabase(url, "CREATE ROLE plain LOGIN PASSWORD 'plain'");
  await askDatabase(url, "CREATE SCHEMA plain AUTHORIZATION plain");
  const plain = new URL(url);
  plain.username = "plain";
  plain.password = "plain";
  plain.searchParams.set("options", "-csearch_path=plain");
  return plain.href;
}

describe("the health of a database", { skip: reasonToSkipPostgres() }, () => {
  test("the health has the session or prepared transaction with the oldest snapshot, and its age", async (t) => {
    const { url } = await startPostgres(t, { settings: { max_prepared_transactions: 1 } });
    const store = await openNode(t, url);
    const session = await openSession(t, url, "report");
    await takeSnapshot(session);
    const [own] = (await session.query("SELECT pg_backend_pid() AS pid")).rows;
    await seedAccount(store);

    const held = await untilHealth(store, ({ oldestSnapshot }) => (oldestSnapshot?.ageMs ?? 0) > 0);

    const { ageMs, transactions, ...holder } = held.oldestSnapshot ?? assert.fail("none");
    assert.deepEqual(holder, { holder: "session", name: "report", pid: own.pid });
    assert(transactions > 0);
    const later = await untilHealth(
      store,
      (health) => (health.oldestSnapshot?.ageMs ?? 0) > (ageMs ?? 0),
    );
    assert.equal(later.oldestSnapshot?.name, "report");

    await session.query("COMMIT");
    await session.query("BEGIN; CREATE TABLE prepared (a int); PREPARE TRANSACTION 'two phases'");
    const prepared = await untilHealth(
      store,
      ({ oldestSnapshot }) => oldestSnapshot?.name === "two phases",
    );
    assert.equal(prepared.oldestSnapshot?.holder, "prepared transaction");
    assert.equal(prepared.oldestSnapshot?.pid, null);
    await session.query("ROLLBACK PREPARED 'two phases'");
    await untilHealth(store, ({ oldestSnapshot }) => oldestSnapshot?.name !== "two phases");
  });

  test("the health counts the sessions of all clients and the dead rows of the queue", async (t) => {
    const { url } = await startPostgres(t, { settings: { autovacuum: "off" } });
    const store = await openNode(t, url);
    const { connections } = await healthOf(store);
    for (const name of ["one", "two", "three"]) await openSession(t, url, name);
    await untilHealth(store, ({ connections: { used } }) => used >= connections.used + 3);
    assert.equal(connections.max, 200);
    const accountId = await seedAccount(store);
    const tasks = [newTask(), newTask()];
    await store.insertTasks(newPost(accountId, tasks));
    await store.cancelTasks(newTaskCancels(accountId, { ids: pluck(tasks, "id") }));
    const { deadRows } = await untilHealth(store, (health) => health.deadRows.queue >= 2);
    assert.equal(deadRows.outbox, 0);
  });

  test("the health is read without any right on the server, hidden fields are null", async (t) => {
    const { url } = await startPostgres(t);
    const store = await openNode(t, await newPlainUser(url));
    await takeSnapshot(await openSession(t, url, "report"));
    await seedAccount(store);
    const health = await untilHealth(
      store,
      ({ oldestSnapshot }) => (oldestSnapshot?.ageMs ?? 0) > 0,
    );
    assert.equal(health.oldestSnapshot?.name, "report");
    assert(health.bytes > 0 && health.connections.used > 1);
  });
});

describe("the health of a database with a standby", { skip: reasonToSkipStandby() }, () => {
  test("the health has the standbys with their lag and whether commits wait for them", async (t) => {
    const primary = await startPostgres(t);
    const store = await openNode(t, primary.url);
    const plain = await openNode(t, await newPlainUser(primary.url));
    const { name } = await startPostgres(t, { standbyOf: primary });

    const { standbys, commitsWait } = await untilHealth(
      store,
      ({ standbys: [first] }) => first?.state === "streaming" && first.lagBytes !== null,
    );

    const [standby, ...others] = standbys;
    assert.deepEqual(others, []);
    assert.equal(standby?.name, name);
    assert.equal(standby.syncState, "async");
    assert.equal(commitsWait, false);
    const hidden = await healthOf(plain);
    assert.deepEqual(hidden.standbys, [
      { name, state: null, syncState: null, lagBytes: null, lagMs: null },
    ]);

    primary.reload({ synchronous_standby_names: name });
    // Each process of the server reads its settings again when it comes to it.
    await untilHealth(
      store,
      (health) => health.commitsWait === true && health.standbys[0]?.syncState === "sync",
    );
  });

  test("the health names the slot of a standby that keeps the oldest snapshot", async (t) => {
    const primary = await startPostgres(t);
    const store = await openNode(t, primary.url);
    const settings = { hot_standby_feedback: "on", wal_receiver_status_interval: 1 };
    const standby = await startPostgres(t, { standbyOf: primary, settings });
    await takeSnapshot(await openSession(t, standby.url));
    const health = await untilHealth(
      store,
      ({ oldestSnapshot }) =>
        oldestSnapshot?.holder === "slot" && (oldestSnapshot.ageMs ?? 0) > 1000,
    );
    assert.equal(health.oldestSnapshot?.name, standby.name);
    assert.notEqual(health.oldestSnapshot?.pid, null);
  });
});
