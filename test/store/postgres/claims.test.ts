import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";

import { SELECT_DUE } from "../../../src/store/postgres/attempts.ts";
import { READ_LANES } from "../../../src/store/postgres/lanes.ts";
import { DELAYED_TYPES, FIND_WAITING_TYPES } from "../../../src/store/postgres/queue.ts";
import { START_LEASES, START_RUNS } from "../../../src/store/postgres/task-claims.ts";
import { RELEASE_DELAYED } from "../../../src/store/postgres/task-runs.ts";
import type { Store } from "../../../src/store/store.ts";
import { askDatabase, openNode, openSession } from "../../helpers/postgres-nodes.ts";
import { Planner, type PlanStep } from "../../helpers/postgres-plans.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../../helpers/postgres.ts";
import {
  claimOne,
  LEASE_MS,
  leaseOne,
  newFinish,
  newLeaseClaim,
  newLeaseType,
  newPost,
  newTask,
  seedAccount,
  seedWorker,
  T0,
  pluck,
} from "../../helpers/store.ts";

/** Two nodes that share a database, with an account. */
async function openNodes(t: TestContext) {
  const url = await newDatabaseUrl(t);
  const first = await openNode(t, url);
  const accountId = await seedAccount(first);
  const post = (tasks: number) =>
    first.insertTasks(
      newPost(
        accountId,
        Array.from({ length: tasks }, () => newTask()),
      ),
    );
  return { url, first, second: await openNode(t, url), accountId, post };
}

/** Claims until there is nothing more. */
async function claimAll(store: Store): Promise<readonly number[]> {
  const seqs: number[] = [];
  for (;;) {
    const claims = [7, 13, 1].map((max) => store.claimTasks({ type: "echo", max, now: T0 }));
    const tasks = (await Promise.all(claims)).flat();
    if (tasks.length === 0) return seqs;
    seqs.push(...tasks.map(({ seq }) => seq));
  }
}

const OTHERS = new Set(["queue_listed", "outbox_by_time"]);

/** The indexes that a plan reads. */
function indexesOf(step: PlanStep): readonly string[] {
  const below = (step.Plans ?? []).flatMap(indexesOf);
  return step["Index Name"] === undefined ? below : [step["Index Name"], ...below];
}

describe("claims of nodes that share a database", { skip: reasonToSkipPostgres() }, () => {
  test("concurrent claims of two nodes start each task once", async (t) => {
    const { first, second, post } = await openNodes(t);
    await post(400);
    const claimed = (await Promise.all([claimAll(first), claimAll(second)])).flat();
    // A claim skips a task that another batch holds.
    claimed.push(...(await claimAll(first)));
    assert.equal(claimed.length, 400);
    assert.equal(new Set(claimed).size, 400);
  });

  test("a claim skips locked rows without waiting", async (t) => {
    const { url, first, post } = await openNodes(t);
    await post(5);
    const other = await openSession(t, url);
    await other.query("BEGIN");
    await other.query("SELECT 1 FROM queue ORDER BY task_seq LIMIT 3 FOR UPDATE");
    assert.equal((await claimAll(first)).length, 2);
    await other.query("ROLLBACK");
    assert.equal((await claimAll(first)).length, 3);
  });

  test("the limit of leases of a type holds over all nodes", async (t) => {
    const { first, second, post } = await openNodes(t);
    const workerId = await seedWorker(first);
    await post(100);
    const types = [newLeaseType({ concurrency: 25 })];
    const claim = (store: Store) => store.claimLeases(newLeaseClaim(workerId, { types, max: 9 }));

    const nodes = Array.from({ length: 12 }, (_, i) => (i % 2 === 0 ? first : second));
    const leases = (await Promise.all(nodes.map(claim))).flat();

    assert.equal(leases.length, 25);
    const [lease] = leases;
    assert(lease !== undefined);
    const end = { id: lease.id, leaseId: lease.leaseId, how: "released" } as const;
    const sequel = { kind: "requeue", isRunCounted: false } as const;
    await second.endLeases({ ends: [{ ...end, sequel }], workerId, now: T0 });
    assert.equal((await Promise.all(nodes.map(claim))).flat().length, 1);
  });

  test("a run is ended only by its own node", async (t) => {
    const { first, second, accountId, post } = await openNodes(t);
    await post(1);
    const { id, seq, runs: run } = await claimOne(first);
    assert.equal(await second.finishTask({ ...newFinish({ seq }), id, run }), null);
    await second.retryTask({ seq, id, run, startAt: T0 });
    await second.releaseTask({ seq, id, run });
    assert.equal(await second.requeueTasks({ seq, id, run }), 0);
    assert.equal((await first.findTask({ accountId, id }))?.task.state, "running");
    assert.deepEqual(await first.finishTask({ ...newFinish({ seq }), id, run }), []);
    assert.equal((await second.findTask({ accountId, id }))?.task.state, "completed");
  });

  test("tasks of an ended node are requeued once, tasks of living nodes are not", async (t) => {
    const { url, first, second, post } = await openNodes(t);
    const third = await openNode(t, url);
    await post(6);
    await first.claimTasks({ type: "echo", max: 4, now: T0 });
    await second.claimTasks({ type: "echo", max: 1, now: T0 });
    const left = { of: "ended nodes" } as const;
    assert.equal(await second.requeueTasks(left), 0);
    await first.close();

    const taken = await Promise.all([second, third].map((store) => store.requeueTasks(left)));

    assert.equal(
      taken.reduce((sum, tasks) => sum + tasks),
      4,
    );
    assert.equal((await claimAll(third)).length, 5);
  });

  test("leases keep their expiry when a node joins, and are extended after all nodes had ended", async (t) => {
    const { first, second, post } = await openNodes(t);
    const workerId = await seedWorker(first);
    await post(1);
    await leaseOne(first, workerId);
    const expiry = async (store: Store, of: "earlier life" | "ended nodes") => {
      const leases = await store.resumeLeases({ of, now: T0 + 5000 });
      return pluck(leases, "expiresAt");
    };
    assert.deepEqual(await expiry(second, "earlier life"), [T0 + LEASE_MS]);
    assert.deepEqual(await expiry(second, "ended nodes"), [T0 + 5000 + LEASE_MS]);
  });

  // With hardly a live row in its statistics, the server takes any index for short.
  test("claims read only their own indexes, also with wrong statistics", async (t) => {
    const { url } = await openNodes(t);
    const planner = await Planner.open(t, url);
    await askDatabase(url, "DROP INDEX queue_waiting, queue_returned, outbox_due");
    const starts = [START_RUNS, START_LEASES].flatMap(({ first, more }) => [first, more]);
    for (const claim of [...starts, FIND_WAITING_TYPES, SELECT_DUE, READ_LANES]) {
      const read = indexesOf(await planner.tree(claim));
      assert.deepEqual(
        read.filter((index) => OTHERS.has(index)),
        [],
      );
    }
  });

  test("due tasks are read in order of an index, also with old statistics", async (t) => {
    const { url } = await openNodes(t);
    const session = await openSession(t, url);
    await session.query(`
      INSERT INTO queue (task_seq, account_seq, type, priority, state, created_at, start_at)
      SELECT i, 1, 'echo', 0, 'delayed', 0, i FROM generate_series(1, 20000) AS i`);
    const planner = await Planner.open(t, url);

    for (const [text, values] of [
      [DELAYED_TYPES, ""],
      [RELEASE_DELAYED, "(0, 9)"],
    ] as const) {
      const plan = await planner.text(text, values);
      assert.match(plan, /Index Scan using queue_delayed/);
      assert.doesNotMatch(plan, /Sort Key: \S*start_at/);
    }
  });
});
