import assert from "node:assert/strict";
import { type TestContext, describe, test } from "node:test";

import { SELECT_DUE } from "../../../src/store/postgres/attempts.ts";
import { READ_LANES } from "../../../src/store/postgres/lanes.ts";
import { DELAYED_TYPES, FIND_WAITING_TYPES } from "../../../src/store/postgres/queue.ts";
import { START_LEASES, START_RUNS } from "../../../src/store/postgres/task-claims.ts";
import { RELEASE_DELAYED } from "../../../src/store/postgres/task-runs.ts";
import type { AttemptRecord, ClaimedAttempt, Store } from "../../../src/store/store.ts";
import { seedDue } from "../../helpers/delivery.ts";
import { askDatabase, openNode, openPair, openSession } from "../../helpers/postgres-nodes.ts";
import { type PlanStep, Planner } from "../../helpers/postgres-plans.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../../helpers/postgres.ts";
import {
  LEASE_MS,
  T0,
  claimAttempt,
  claimOne,
  endLease,
  leaseOne,
  newAttemptRecord,
  newAttemptResult,
  newFinish,
  newLeaseClaim,
  newLeaseEnd,
  newLeaseType,
  newPost,
  newTask,
  pluck,
  seedAccount,
  seedDelivery,
  seedWorker,
} from "../../helpers/store.ts";

/** Two nodes that share a database, with an account. */
async function openNodes(t: TestContext) {
  const pair = await openPair(t);
  const accountId = await seedAccount(pair.first);
  const post = (count: number) => {
    const tasks = Array.from({ length: count }, () => newTask());
    return pair.first.insertTasks(newPost(accountId, tasks));
  };
  return { ...pair, accountId, post };
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

  test("the limit of leases of a type holds over all nodes", async (t) => {
    const { first, second, post } = await openNodes(t);
    const workerId = await seedWorker(first);
    await post(100);
    const types = [newLeaseType({ concurrency: 25 })];
    const claim = (store: Store) => store.claimLeases(newLeaseClaim(workerId, { types, max: 9 }));

    const nodes = Array.from({ length: 12 }, (_, i) => (i % 2 === 0 ? first : second));
    const leases = (await Promise.all(nodes.map(claim))).flat();

    assert.equal(leases.length, 25);
    const [lease = assert.fail()] = leases;
    const sequel = { kind: "requeue", isRunCounted: false } as const;
    await endLease(second, newLeaseEnd(lease, { how: "released", sequel }), T0);
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
    const url = await newDatabaseUrl(t);
    await openNode(t, url);
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
    const url = await newDatabaseUrl(t);
    await openNode(t, url);
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

const DUE = T0 + 1000;

/** The record of an interrupted attempt, due again immediately. */
function interrupted(attempt: ClaimedAttempt): AttemptRecord {
  const result = newAttemptResult({ outcome: "interrupted" });
  const decision = { state: "scheduled", dueAt: DUE + 5, retry: attempt.retry } as const;
  return newAttemptRecord(attempt, { result, decision, endedAt: DUE + 5 });
}

/** The outcome of each attempt of a task's only delivery. */
async function outcomes(store: Store, accountId: number, id: string): Promise<readonly unknown[]> {
  const [delivery] = (await store.listDeliveries({ accountId, id })) ?? [];
  return (delivery?.attempts ?? []).map(({ outcome, startedAt }) =>
    startedAt === null ? "scheduled" : (outcome ?? "in flight"),
  );
}

describe("attempts of several nodes", { skip: reasonToSkipPostgres() }, () => {
  test("attempts in flight of a living node are not listed or recorded by another node", async (t) => {
    const { first: store, second: other, accountId } = await openNodes(t);
    const { id } = await seedDelivery(store, accountId);
    const attempt = await claimAttempt(store);
    for (const whose of ["earlier life", "ended nodes"] as const) {
      assert.deepEqual(await other.listInFlight({ of: whose }), []);
    }
    await other.recordAttempt(interrupted(attempt));
    assert.deepEqual(await outcomes(store, accountId, id), ["in flight"]);
    await store.recordAttempt(newAttemptRecord(attempt, { decision: { state: "given_up" } }));
    assert.deepEqual(await outcomes(store, accountId, id), ["failed"]);
  });

  test("attempts in flight of an ended node are interrupted once", async (t) => {
    const { url, first: store, second: first, accountId } = await openNodes(t);
    const others = [first, await openNode(t, url)];
    const { id } = await seedDelivery(store, accountId);
    const attempt = await claimAttempt(store);
    await store.close();

    const left = await first.listInFlight({ of: "ended nodes" });
    assert.deepEqual(pluck(left, "seq"), [attempt.seq]);
    await first.recordAttempt(newAttemptRecord(attempt, { decision: { state: "delivered" } }));
    assert.deepEqual(await outcomes(first, accountId, id), ["in flight"]);

    await Promise.all(others.map((each) => each.recordAttempt(interrupted(attempt))));

    assert.deepEqual(await outcomes(first, accountId, id), ["interrupted", "scheduled"]);
  });

  test("concurrent claims of nodes from one lane have different attempts", async (t) => {
    const { url, first: store, second, accountId } = await openNodes(t);
    const nodes = [store, second, await openNode(t, url)];
    await seedDue(store, accountId, Array<string>(60).fill("a.example"));
    const lanes = [{ accountId, host: "a.example", fresh: 7, retries: 0 }];

    const started: number[] = [];
    for (let before = -1; before < started.length;) {
      before = started.length;
      const claims = nodes.map((node) => node.claimAttempts({ lanes, now: DUE }));
      for (const { attempts } of await Promise.all(claims)) {
        started.push(...attempts.map(({ seq }) => seq));
      }
    }

    assert.equal(new Set(started).size, started.length);
    assert.equal(started.length, 60);
  });
});
