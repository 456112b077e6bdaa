import assert from "node:assert/strict";
import { type TestContext, describe, test } from "node:test";

import { firstSeqOf } from "../../../src/store/postgres/machine/sql.ts";
import type { Store } from "../../../src/store/store.ts";
import { askDatabase, eventually, openNode, openSession } from "../../helpers/postgres-nodes.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../../helpers/postgres.ts";
import {
  RETENTION_MS,
  newAttemptRecord,
  newAttemptResult,
  newFinish,
  newPost,
  newTask,
  pluck,
  retainedUntil,
  seedAccount,
  webhook,
} from "../../helpers/store.ts";

const HOST = "a.example";
const RUNNING = "running";
/** Far below every scan start. */
const OLD_MS = 60_000;

const ended = () => ({ endedAt: Date.now(), ...retainedUntil(Date.now() + RETENTION_MS) });

const claim = (store: Store) => store.claimTasks({ type: "echo", max: 10, now: Date.now() });

async function claimSeqs(store: Store): Promise<readonly number[]> {
  return pluck(await claim(store), "seq");
}

async function claimAttempts(store: Store, accountId: number) {
  const lanes = [{ accountId, host: HOST, fresh: 9, retries: 9 }];
  return (await store.claimAttempts({ lanes, now: Date.now() })).attempts;
}

/** A node whose scan starts have risen, because it has claimed all that there was, and a session beside it. */
async function openRisen(t: TestContext) {
  const url = await newDatabaseUrl(t);
  const store = await openNode(t, url);
  const session = await openSession(t, url);
  const accountId = await seedAccount(store);
  const post = (task = newTask()) =>
    store.insertTasks(newPost(accountId, [task], { createdAt: Date.now() }));
  await post(newTask({ postback: webhook(HOST) }));
  const [first] = await claim(store);
  assert(first !== undefined);
  await store.finishTask(newFinish(first, ended()));
  const [attempt] = await claimAttempts(store, accountId);
  assert(attempt !== undefined);
  assert.deepEqual(await claim(store), []);
  return { url, store, session, accountId, post, attempt };
}

interface OldTask {
  readonly ageMs?: number;
  readonly priority?: number;
  readonly state?: "queued" | "delayed" | typeof RUNNING;
}

/** Makes a task visible now whose number is so old. A running task belongs to the node that joined last. */
async function appear(
  { session, accountId }: Pick<Awaited<ReturnType<typeof openRisen>>, "session" | "accountId">,
  { ageMs = OLD_MS, priority = 0, state = "queued" }: OldTask,
): Promise<number> {
  const seq = firstSeqOf(Date.now() - ageMs);
  await session.query(
    `INSERT INTO tasks (seq, id, account_seq, type, created_at, data_text)
     VALUES ($1, gen_random_uuid(), $2, 'echo', 0, '{}')`,
    [seq, accountId],
  );
  await session.query(
    `INSERT INTO queue (task_seq, account_seq, type, priority, state, created_at, start_at, runs, node_seq)
     VALUES ($1, $2, 'echo', $3, $4, 0, $5, $6, CASE WHEN $6 > 0 THEN (SELECT max(seq) FROM nodes) END)`,
    [seq, accountId, priority, state, state === "delayed" ? 0 : null, state === RUNNING ? 1 : 0],
  );
  return seq;
}

describe("claims from a scan start on", { skip: reasonToSkipPostgres() }, () => {
  test("claims find a task whose post was committed some seconds late", async (t) => {
    const risen = await openRisen(t);
    const seq = await appear(risen, { ageMs: 4000 });
    let found: readonly number[] = [];

    // The claim that looks further back comes once a second.
    await eventually(
      "it is claimed",
      async () => {
        found = await claimSeqs(risen.store);
        return found.length > 0;
      },
      3000,
    );

    assert.deepEqual(found, [seq]);
  });

  test("older tasks are claimed after the scan that follows the end of a node", async (t) => {
    const risen = await openRisen(t);
    const { store } = risen;
    const seq = await appear(risen, {});
    assert.deepEqual(await claimSeqs(store), []);
    await store.requeueTasks({ of: "ended nodes" });
    assert.deepEqual(await store.findWaitingTypes(["echo"]), ["echo"]);
    assert.deepEqual(await claimSeqs(store), [seq]);
  });

  test("tasks requeued or released by another node are claimed immediately", async (t) => {
    const risen = await openRisen(t);
    const { store, url } = risen;
    const other = await openNode(t, url);
    const delayed = await appear(risen, { ageMs: OLD_MS + 3, state: "delayed" });
    const released = await appear(risen, { ageMs: OLD_MS + 2, state: RUNNING });
    const requeued = await appear(risen, { ageMs: OLD_MS + 1, state: RUNNING });
    assert.deepEqual(await claimSeqs(store), []);
    await other.releaseDelayed({ now: Date.now(), max: 10 });
    await other.releaseTask({ seq: released, run: 1 });
    assert.equal(await other.requeueTasks({ seq: requeued, run: 1 }), 1);
    assert.deepEqual(await store.findWaitingTypes(["echo"]), ["echo"]);
    assert.deepEqual(await claimSeqs(store), [delayed, released, requeued]);
  });

  test("priorities hold below and above the scan start", async (t) => {
    const risen = await openRisen(t);
    const { store, url, post } = risen;
    const other = await openNode(t, url);
    const returned = await appear(risen, { ageMs: OLD_MS + 1, state: RUNNING });
    const urgent = await appear(risen, { priority: 5 });
    await post();
    await other.releaseTask({ seq: returned, run: 1 });
    const [first, second, third, ...others] = await claimSeqs(store);
    assert.deepEqual([first, second], [urgent, returned]);
    assert.ok(Number(third) > urgent);
    assert.deepEqual(others, []);
  });

  test("a task that was locked is claimed after its release", async (t) => {
    const risen = await openRisen(t);
    const { store, session } = risen;
    const seq = await appear(risen, { ageMs: 3000 });
    await session.query("BEGIN");
    await session.query("SELECT 1 FROM queue WHERE task_seq = $1 FOR UPDATE", [seq]);
    assert.deepEqual(await claimSeqs(store), []);
    await session.query("ROLLBACK");
    await eventually("it is claimed", async () => (await claimSeqs(store)).includes(seq), 3000);
  });

  test("tasks of a disabled account are claimed after it is enabled", async (t) => {
    const risen = await openRisen(t);
    const { store } = risen;
    await store.setAccountDisabled({ login: "ada", disabledAt: Date.now() });
    await store.listSuspensionChanges({ after: 0 });
    const seq = await appear(risen, {});
    assert.deepEqual(await claimSeqs(store), []);
    await store.setAccountDisabled({ login: "ada", disabledAt: null });
    await store.listSuspensionChanges({ after: 0 });
    assert.deepEqual(await claimSeqs(store), [seq]);
  });

  test("interrupted and overdue attempts are claimed below the scan start", async (t) => {
    const { store, accountId, attempt } = await openRisen(t);
    const result = newAttemptResult({ outcome: "interrupted" });
    const next = (dueAt: number) => ({ state: "scheduled", dueAt, retry: 0 }) as const;
    const now = Date.now();
    await store.recordAttempt({ attempt, result, endedAt: now, decision: next(now) });
    const [again] = await claimAttempts(store, accountId);
    assert.equal(again?.number, 2);

    await store.recordAttempt({
      attempt: again,
      result,
      endedAt: now,
      decision: next(now - OLD_MS),
    });

    assert.equal((await claimAttempts(store, accountId))[0]?.number, 3);
  });

  test("overdue attempts of another node are claimed after the lanes were listed", async (t) => {
    const { store, accountId, attempt, session } = await openRisen(t);
    const other = { outcome: "interrupted" } as const;
    const decision = { state: "scheduled", dueAt: Date.now() + OLD_MS, retry: 0 } as const;
    const result = newAttemptResult(other);
    await store.recordAttempt({ attempt, result, endedAt: Date.now(), decision });
    assert.deepEqual(await claimAttempts(store, accountId), []);
    await session.query("UPDATE outbox SET due_at = $1", [Date.now() - OLD_MS]);
    await store.listLanes({ accountId: "all" });
    assert.equal((await claimAttempts(store, accountId))[0]?.number, 2);
  });
});

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
  const task = newTask({ postback: webhook(HOST) });
  await store.insertTasks(newPost(accountId, [task], { createdAt: Date.now() }));
  const [claimed = assert.fail()] = await claim(store);
  await store.finishTask(newFinish(claimed, ended()));
  const [attempt = assert.fail()] = await claimAttempts(store, accountId);
  await store.recordAttempt(newAttemptRecord(attempt, { decision: { state: "delivered" } }));
}

/** Holds a snapshot that keeps the server from removing dead rows. */
async function pinSnapshot(t: TestContext, url: string): Promise<void> {
  const client = await openSession(t, url);
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
