import assert from "node:assert/strict";
import { type TestContext, describe, test } from "node:test";

import { findFaults } from "../../../scripts/kit/postgres-faults.ts";
import type { Store } from "../../../src/store/store.ts";
import {
  askDatabase,
  eventually,
  openPatientNode,
  openSession,
  whenBlocking,
} from "../../helpers/postgres-nodes.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../../helpers/postgres.ts";
import {
  RETENTION_MS,
  T0,
  claimAttempt,
  claimOne,
  giveUpAll,
  newAttemptRecord,
  newFinish,
  newPost,
  newRefusedTask,
  newTask,
  postTask,
  seedAccount,
  seedDelivery,
  webhook,
} from "../../helpers/store.ts";

const LATE = { now: T0 + 2 * RETENTION_MS, max: 10 };

// The concurrent writes of another node.
const END_TASK = `
  WITH gone AS (DELETE FROM queue RETURNING *), ended AS (
    INSERT INTO ends (task_seq, account_seq, state, status_code, created_at, completed_at, expires_at, erase_at)
    SELECT task_seq, account_seq, 'completed', 20000, created_at, 0, 0, 0 FROM gone
  ), collectable AS (
    INSERT INTO ready (account_seq, completed_at, task_seq, type) SELECT account_seq, 0, task_seq, type FROM gone
  )
  INSERT INTO outbox (seq, task_seq, kind, account_seq, number, retry, host, due_at)
  SELECT 1, task_seq, 'postback', account_seq, 1, 0, postback_host, 0 FROM gone`;

const SEND_AGAIN = `
  WITH begun AS (UPDATE deliveries SET ended = NULL RETURNING *)
  INSERT INTO outbox (seq, task_seq, kind, account_seq, number, retry, host, due_at)
  SELECT 1, task_seq, kind, 1, 1, 0, host, 0 FROM begun`;

describe("erasures on PostgreSQL", { skip: reasonToSkipPostgres() }, () => {
  test("an erased task leaves no row in any table", async (t) => {
    const { store, rows } = await open(t);
    const accountId = await seedAccount(store);
    const hooks = { postback: webhook("a.example"), pingback: webhook("b.example") };
    const task = newTask({ ...hooks, inputText: "1", tag: "t" });
    await store.insertTasks(newPost(accountId, [task], { refused: [newRefusedTask()] }));
    await store.finishTask(newFinish(await claimOne(store)));
    await store.recordAttempt(newAttemptRecord(await claimAttempt(store)));
    const before = { tasks: 2, queue: 0, ends: 2, ready: 1, deliveries: 2, outbox: 2, attempts: 1 };
    assert.deepEqual(await rows(), before);
    await giveUpAll(store);
    assert.equal((await store.eraseExpired(LATE)).looked, 2);
    assert.deepEqual(await rows(), NONE);
  });

  test("a task that ends during its erasure leaves no row", async (t) => {
    const { store, rows, other } = await open(t);
    const accountId = await seedAccount(store);
    const task = await postTask(store, accountId, { postback: webhook("a.example") });
    await other.query("BEGIN");
    await other.query(END_TASK);
    const erased = store.eraseTask({ id: task.id, hasWebhooks: true });
    await whenBlocking(other);
    await other.query("COMMIT");
    assert.equal(await erased, "erased");
    assert.deepEqual(await rows(), NONE);
  });

  test("a task whose webhook is redelivered during its erasure is kept", async (t) => {
    const { url, store, other } = await open(t);
    const accountId = await seedAccount(store);
    const { id } = await seedDelivery(store, accountId);
    const attempt = await claimAttempt(store);
    await store.recordAttempt(newAttemptRecord(attempt, { decision: { state: "delivered" } }));

    await other.query("BEGIN");
    await other.query(SEND_AGAIN);
    const looked = store.eraseExpired(LATE);
    await whenBlocking(other);
    await other.query("COMMIT");

    assert.equal((await looked).looked, 1);
    assert.notEqual(await store.findTask({ accountId, id }), null);
    assert.deepEqual(await findFaults(url, { erases: true }), []);
    assert.equal((await store.eraseExpired(LATE)).looked, 0, "it is looked at again after an hour");
  });

  test("the erasure of an account waits for posts of other nodes and erases them", async (t) => {
    const { url, store, rows, other, hasAsked } = await open(t);
    const accountId = await seedAccount(store);
    const node = await openPatientNode(t, url);
    await other.query("BEGIN");
    await other.query(`SELECT FROM stripes WHERE node_seq = ${node.cluster.self} FOR UPDATE`);
    await store.setAccountDisabled({ login: "ada", disabledAt: T0 });

    const erased = eraseAccount(store, "ada");
    await hasAsked("%pg_locks%");
    await other.query(`
      INSERT INTO tasks (seq, id, account_seq, type, created_at, priority, data_text)
      VALUES (1, gen_random_uuid(), ${accountId}, 'echo', ${T0}, 0, 'null');
      INSERT INTO queue (task_seq, account_seq, type, priority, state, created_at)
      VALUES (1, ${accountId}, 'echo', 0, 'queued', ${T0});
      INSERT INTO idempotency_keys (account_seq, key, body_hash, response_text, erase_at)
      VALUES (${accountId}, 'k', '', '', ${T0})`);
    await other.query("COMMIT");

    assert.equal(await erased, 1);
    assert.deepEqual(await rows(), NONE);
    const { rows: kept } = await other.query("SELECT FROM idempotency_keys");
    assert.equal(kept.length, 0);
  });

  test("a post during the erasure of its account waits and is rejected", async (t) => {
    const { store, rows, other } = await open(t);
    const accountId = await seedAccount(store);
    await store.setAccountDisabled({ login: "ada", disabledAt: T0 });
    await other.query("BEGIN");
    await other.query("SELECT FROM accounts FOR NO KEY UPDATE");
    const posted = store.insertTasks(newPost(accountId, [newTask()]));
    posted.catch(() => {});
    await whenBlocking(other);
    await other.query("DELETE FROM keys; DELETE FROM accounts");
    await other.query("COMMIT");
    await assert.rejects(posted, /account does not exist/);
    assert.deepEqual(await rows(), NONE);
  });

  test("an erasure skips rows that another node erases", async (t) => {
    const { store, other } = await open(t);
    const accountId = await seedAccount(store);
    const refused = [newRefusedTask(), newRefusedTask()];
    await store.insertTasks(newPost(accountId, [], { refused }));
    await other.query("BEGIN");
    await other.query("SELECT 1 FROM ends ORDER BY task_seq LIMIT 1 FOR UPDATE");
    assert.equal((await store.eraseExpired(LATE)).looked, 1);
    await other.query("ROLLBACK");
    assert.equal((await store.eraseExpired(LATE)).looked, 1);
  });
});

const NONE = { tasks: 0, queue: 0, ends: 0, ready: 0, deliveries: 0, outbox: 0, attempts: 0 };

/** Returns the number of its tasks. */
async function eraseAccount(store: Store, login: string): Promise<number> {
  for (let tasks = 0; ;) {
    const part = await store.eraseAccountPart({ login });
    if (part.kind === "done") return tasks;
    assert.equal(part.kind, "more");
    tasks += part.tasks;
  }
}

/** A store, and another connection. */
async function open(t: TestContext) {
  const url = await newDatabaseUrl(t);
  const node = { name: "erasing", url: null, version: "0" };
  const store = await openPatientNode(t, url, { node });
  return {
    url,
    store,
    other: await openSession(t, url),
    /** How many rows of tasks each table has. */
    async rows() {
      const counts = Object.keys(NONE).map(
        (table) => `(SELECT count(*)::int FROM ${table}) AS ${table}`,
      );
      return (await askDatabase(url, `SELECT ${counts.join()}`))[0];
    },
    /** Settles when a connection of the store has sent such a statement last. */
    hasAsked: (statement: string) =>
      eventually(statement, async () => {
        const asked = `
          SELECT 1 FROM pg_stat_activity
          WHERE application_name = 'postbackd erasing' AND query LIKE '${statement}'`;
        return (await askDatabase(url, asked)).length > 0;
      }),
  };
}
