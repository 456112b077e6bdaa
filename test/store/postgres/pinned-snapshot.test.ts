import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import pg from "pg";

import type { Store } from "../../../src/store/store.ts";
import { askDatabase, eventually, openNode } from "../../helpers/postgres-nodes.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../../helpers/postgres.ts";
import {
  newAttemptRecord,
  newFinish,
  newPost,
  newTask,
  retainedUntil,
  RETENTION_MS,
  seedAccount,
  webhook,
} from "../../helpers/store.ts";

const HOST = "a.example";
const DEAD_ROWS = 20_000;
// A task and its attempt need some dozens; a claim that walks over the dead rows reads several times as many.
const ENTRIES_MAX = 5000;

// A session reports its reads once a second, and only between statements.
const ENTRIES_READ = `
  SELECT coalesce(sum(idx_tup_read), 0)::float8 AS count FROM pg_stat_user_indexes
  WHERE relname IN ('queue', 'outbox') AND schemaname = current_schema()`;

const DEAD = `
  INSERT INTO queue (task_seq, account_seq, type, priority, state, created_at)
  SELECT n, (SELECT max(seq) FROM accounts), 'echo', 0, 'queued', 0 FROM generate_series(1, ${DEAD_ROWS}) AS n;
  INSERT INTO outbox (seq, task_seq, kind, account_seq, number, retry, host, due_at)
  SELECT n, n, 'postback', (SELECT max(seq) FROM accounts), 1, 0, '${HOST}', 0
  FROM generate_series(1, ${DEAD_ROWS}) AS n;
  DELETE FROM queue WHERE task_seq <= ${DEAD_ROWS};
  DELETE FROM outbox WHERE seq <= ${DEAD_ROWS}`;

/** Posts a task, runs it and delivers its postback. */
async function runOne(store: Store, accountId: number): Promise<void> {
  const now = Date.now();
  const task = newTask({ postback: webhook(HOST) });
  await store.insertTasks(newPost(accountId, [task], { createdAt: now }));
  const [claimed] = await store.claimTasks({ type: "echo", max: 1, now: Date.now() });
  assert(claimed !== undefined);
  const endedAt = Date.now();
  const end = { endedAt, ...retainedUntil(endedAt + RETENTION_MS) };
  await store.finishTask(newFinish(claimed, end));
  const lanes = [{ accountId, host: HOST, fresh: 9, retries: 9 }];
  const { attempts } = await store.claimAttempts({ lanes, now: Date.now() });
  const [attempt] = attempts;
  assert(attempt !== undefined);
  await store.recordAttempt(newAttemptRecord(attempt, { decision: { state: "delivered" } }));
}

/** Holds a snapshot that keeps the server from removing dead rows. */
async function pinSnapshot(t: TestContext, url: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  t.after(() => client.end());
  await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
  await client.query("SELECT count(*) FROM queue");
}

async function entriesRead(url: string): Promise<number> {
  const [row] = await askDatabase<{ count: number }>(url, ENTRIES_READ);
  return row?.count ?? Number.NaN;
}

test(
  "claims do not read the dead rows that an old snapshot keeps",
  { skip: reasonToSkipPostgres() },
  async (t) => {
    const url = await newDatabaseUrl(t);
    const store = await openNode(t, url);
    const accountId = await seedAccount(store);
    await runOne(store, accountId);
    await pinSnapshot(t, url);
    await askDatabase(url, DEAD);
    await askDatabase(url, "VACUUM ANALYZE queue, outbox");
    const before = await entriesRead(url);

    let tasks = 0;
    let entries = 0;
    const isReported = async (): Promise<boolean> => {
      await runOne(store, accountId);
      tasks++;
      entries = (await entriesRead(url)) - before;
      return tasks > 20 && entries > tasks;
    };
    await eventually("reads are reported", isReported, 30_000);

    assert.ok(entries / tasks <= ENTRIES_MAX, `${entries / tasks} index entries for each task`);
  },
);
