import assert from "node:assert/strict";
import { type TestContext, describe, test } from "node:test";

import type { LeasedTask, Store } from "../../../src/store/store.ts";
import {
  PATIENT,
  eventually,
  openPair,
  openSession,
  whenBlocking,
} from "../../helpers/postgres-nodes.ts";
import { reasonToSkipPostgres } from "../../helpers/postgres.ts";
import {
  T0,
  newAccount,
  newKeyToStore,
  newLeaseClaim,
  newLeaseType,
  newPost,
  newTask,
  pluck,
  seedAccount,
  seedWorker,
} from "../../helpers/store.ts";

/** Concurrent writes of two nodes, or of a node and a long transaction. */
describe("limits that nodes share", { skip: reasonToSkipPostgres() }, () => {
  test("a session is refused while its account is being disabled", async (t) => {
    const { nodes, slow } = await openNodes(t);
    const firstKey = newKeyToStore();
    await nodes[0].createAccount(newAccount({ firstKey }));
    await slow.query("BEGIN");
    await slow.query("UPDATE accounts SET disabled_at = 1");
    await slow.query("DELETE FROM sessions");
    const session = { hash: "s", keyId: firstKey.keyId, createdAt: T0, sessionsMax: 1 };

    const created = nodes[0].createSession(session);
    await whenBlocking(slow);
    await slow.query("COMMIT");

    assert.equal(await created, "refused");
    await nodes[0].setAccountDisabled({ login: "ada", disabledAt: null });
    assert.equal(await nodes[0].findSession(session.hash), null);
  });

  test("suspension changes are visible in order", async (t) => {
    const { nodes, slow } = await openNodes(t);
    const [ada, bob] = [await seedAccount(nodes[0], "ada"), await seedAccount(nodes[0], "bob")];
    await slow.query("BEGIN");
    await slow.query("UPDATE accounts SET disabled_at = 1 WHERE login = 'ada'");
    await slow.query("INSERT INTO suspension_changes (account_seq) VALUES ($1)", [ada]);

    const disabled = nodes[0].setAccountDisabled({ login: "bob", disabledAt: T0 });
    await whenBlocking(slow);
    const before = await nodes[1].listSuspensionChanges({ after: 0 });
    await slow.query("COMMIT");
    await disabled;

    assert.deepEqual(before.accounts, []);
    const { accounts } = await nodes[1].listSuspensionChanges({ after: before.last });
    assert.deepEqual(pluck(accounts, "accountId"), [ada, bob]);
  });

  test("a response erased by another node during a new post is subtracted once", async (t) => {
    const { nodes, slow } = await openNodes(t);
    const accountId = await seedAccount(nodes[0]);
    const post = (steadyAt: number) => {
      const idempotency = { key: "k", bodyHash: "h", answerText: "{}", steadyAt, eraseAt: T0 + 9 };
      return newPost(accountId, [], { idempotency });
    };
    await nodes[0].insertTasks(post(T0));
    const { bytes } = await nodes[0].countWork(accountId);
    await slow.query("BEGIN");
    // The erasing session subtracts it.
    await slow.query("DELETE FROM idempotency_keys");

    const again = nodes[0].insertTasks(post(T0 + 10));
    await whenBlocking(slow);
    await slow.query("COMMIT");
    await again;

    assert.equal((await nodes[0].countWork(accountId)).bytes, 2 * bytes);
  });
});

async function openNodes(t: TestContext) {
  const { url, first, second } = await openPair(t, PATIENT);
  return { nodes: [first, second] as const, slow: await openSession(t, url) };
}

/** Each of four writers may claim 256 in a batch: up to 2,048 below the limit they do not wait for each other. */
const LIMIT = 2600;
const AT_ONCE = 100;

async function openNearLimit(t: TestContext) {
  const { url, first, second } = await openPair(t, PATIENT);
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
    const { first, second, session, claim } = await openNearLimit(t);
    let early = (await claim(first)).length;
    // Near the limit, but not for the other yet.
    for (let claims = 0; claims < 12; claims++) early += (await claim(second)).length;
    await session.query("BEGIN");
    await session.query(LOCK_COUNTS_OF_FIRST);
    const slow = claim(first);
    await whenBlocking(session);

    let isDone = false;
    const others = claimAll(() => claim(second)).finally(() => (isDone = true));
    const isHeldUp = async () => isDone || (await session.query(WAITING_BEHIND)).rowCount !== 0;
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

/** The sessions that wait for a session that waits for this one. */
const WAITING_BEHIND = `
  WITH b AS MATERIALIZED (
    SELECT pid, pg_blocking_pids(pid) AS by FROM pg_stat_activity WHERE pid <> pg_backend_pid()
  )
  SELECT 1 FROM b AS other JOIN b AS mine ON mine.pid = ANY (other.by) WHERE pg_backend_pid() = ANY (mine.by)`;
