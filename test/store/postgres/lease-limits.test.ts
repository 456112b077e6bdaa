import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";

import type pg from "pg";

import type { LeasedTask, Store } from "../../../src/store/store.ts";
import { eventually, openPatientNode, openSession } from "../../helpers/postgres-nodes.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../../helpers/postgres.ts";
import {
  newLeaseClaim,
  newLeaseType,
  newPost,
  newTask,
  seedAccount,
  seedWorker,
} from "../../helpers/store.ts";

/** Each of four writers may claim 256 in a batch: up to 2,048 below the limit they do not wait for each other. */
const LIMIT = 2600;
const AT_ONCE = 100;

async function openNodes(t: TestContext) {
  const url = await newDatabaseUrl(t);
  const first = await openPatientNode(t, url);
  const second = await openPatientNode(t, url);
  const session = await openSession(t, url);
  const accountId = await seedAccount(first);
  const workerId = await seedWorker(first);
  for (let posted = 0; posted < LIMIT + 2 * AT_ONCE; posted += AT_ONCE) {
    const tasks = Array.from({ length: AT_ONCE }, () => newTask());
    await first.insertTasks(newPost(accountId, tasks));
  }
  const types = [newLeaseType({ concurrency: LIMIT })];
  const claim = (store: Store) =>
    store.claimLeases(newLeaseClaim(workerId, { types, max: AT_ONCE }));
  return { first, second, session, claim };
}

/** Claims, one claim after the other, until nothing more is given out. */
async function claimAll(claim: () => Promise<readonly LeasedTask[]>): Promise<number> {
  let sum = 0;
  for (;;) {
    const { length } = await claim();
    if (length === 0) return sum;
    sum += length;
  }
}

describe("a type's limit of leases", { skip: reasonToSkipPostgres() }, () => {
  test("the limit holds while a claim of another node takes long to commit", async (t) => {
    const { first, second, session, claim } = await openNodes(t);
    let early = (await claim(first)).length;
    // Near the limit, but not for the other yet.
    for (let claims = 0; claims < 12; claims++) early += (await claim(second)).length;
    await session.query("BEGIN");
    await session.query(LOCK_COUNTS_OF_FIRST);
    const slow = claim(first);
    await eventually("the claim waits", async () => await waiting(session, "for me"), 30_000);

    let isDone = false;
    const others = claimAll(() => claim(second)).finally(() => (isDone = true));
    const isHeldUp = async () => isDone || (await waiting(session, "for who waits for me"));
    await eventually("the other node has come to the limit", isHeldUp, 60_000);
    await session.query("COMMIT");

    assert.equal(early + (await slow).length + (await others), LIMIT);
  });
});

// Each batch writes what it has changed as its last rows, of its writer's own stripe.
const LOCK_COUNTS_OF_FIRST = `
  WITH first AS (SELECT stripe FROM stripes WHERE node_seq = (SELECT min(seq) FROM nodes))
  INSERT INTO task_counts (account_seq, word, stripe, count)
  SELECT a.seq, 'running', stripe, 0 FROM first CROSS JOIN accounts AS a
  ON CONFLICT (account_seq, word, stripe) DO UPDATE SET count = task_counts.count`;

const BLOCKED = `SELECT pid, pg_blocking_pids(pid) AS by FROM pg_stat_activity WHERE pid <> pg_backend_pid()`;

const WAITING = {
  "for me": `SELECT 1 FROM (${BLOCKED}) AS b WHERE pg_backend_pid() = ANY (by)`,
  "for who waits for me": `
    WITH b AS MATERIALIZED (${BLOCKED})
    SELECT 1 FROM b AS other JOIN b AS mine ON mine.pid = ANY (other.by) WHERE pg_backend_pid() = ANY (mine.by)`,
};

/** Returns whether another session waits. */
async function waiting(session: pg.Client, whom: keyof typeof WAITING): Promise<boolean> {
  const { rowCount } = await session.query(WAITING[whom]);
  return (rowCount ?? 0) > 0;
}
