import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { Program } from "../../scripts/kit/daemon.ts";
import { afterwards } from "../helpers/afterwards.ts";
import { clockAhead, forgetFakeTime, reasonToSkipFakeTime } from "../helpers/fake-time.ts";
import { askDatabase, eventually } from "../helpers/postgres-nodes.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { claim, outcomesOf } from "../http/worker-requests.ts";
import { startCluster, testedProgram } from "./start.ts";

const skip = reasonToSkipFakeTime();

const MINUTES_5 = 300;
// Far below five minutes, and more than a busy machine needs.
const NEAR_MS = 60_000;
// The most by which two nodes, or a node and the database, may differ: half of a heartbeat's round trip.
const APART_MS = 100;
const RETRY_MS = 1000;
const LEASE_MS = 10_000;

/** The tested program with a clock that is so many seconds ahead. */
function programAhead(seconds: number): Program {
  const { name, command } = testedProgram();
  const variables = Object.entries(clockAhead(seconds)).map(([key, value]) => `${key}=${value}`);
  return { name, command: ["/usr/bin/env", ...variables, ...command] };
}

/** Two nodes: the clock of one is five minutes ahead, the clock of the other five minutes behind. */
async function startSkewed(t: TestContext, more: string) {
  const pids: number[] = [];
  afterwards(t, () => {
    for (const pid of pids) forgetFakeTime(pid);
  });
  const started = await startCluster(t, {
    ...{ more, nodes: 2 },
    programOf: (index) => programAhead(index === 0 ? MINUTES_5 : -MINUTES_5),
  });
  const { cluster, at } = started;
  pids.push(...cluster.nodes.map(({ daemon }) => daemon.pid));
  // The first heartbeats are slow because the machine is busy with starts; later ones bring the time.
  for (const i of cluster.nodes.keys()) {
    const isSettled = async (): Promise<boolean> => {
      const before = await clockOf(cluster.admin.database);
      const { created_at: at_ } = await at(i).get(await at(i).post({ type: "echo" }));
      const after = await clockOf(cluster.admin.database);
      // A slow try proves nothing.
      if (after - before > APART_MS / 2) return false;
      return Date.parse(at_) > before - APART_MS / 2 && Date.parse(at_) < after + APART_MS / 2;
    };
    await eventually("its clock is the database's", isSettled, NEAR_MS);
  }
  return started;
}

test("nodes whose clocks are ten minutes apart", { skip, timeout: 240_000 }, async (t) => {
  const more = `
[webhooks]
retry_after = ["${RETRY_MS / 1000}s"]
[types.x]
runner = "worker"
lease = "${LEASE_MS / 1000}s"
`;
  const { cluster, at } = await startSkewed(t, more);
  const { database } = cluster.admin;
  const places = [...cluster.nodes.keys()];
  const next = (i: number): number => (i + 1) % places.length;

  await t.test("all times come from the database's clock", async () => {
    for (const i of places) {
      const before = await clockOf(database);
      const id = await at(i).post({ type: "echo" });
      await at(next(i)).ended(id);
      const after = await clockOf(database);
      const { created, started, completed } = await timesOf(database, id);
      inOrder([before, created, started, completed, after]);
    }
  });

  await t.test("a task starts at its start_at, at any node", async () => {
    const startAt = Math.ceil(await clockOf(database)) + 6000;
    const starts = places.map(async (i) => {
      const id = await at(i).post({ type: "echo", start_at: new Date(startAt).toISOString() });
      await at(next(i)).ended(id);
      const { created, started, completed } = await timesOf(database, id);
      inOrder([created, startAt, started, completed]);
    });
    await Promise.all(starts);
  });

  await t.test("a retry is sent after its wait, by any node", async (t) => {
    const reply = (_: unknown, index: number) =>
      ({ kind: "status", status: index === 0 ? 500 : 204 }) as const;
    for (const i of places) {
      const receiver = await startReceiver(t, { reply });
      const id = await at(i).post({ type: "echo", postback_url: receiver.url() });
      const attempts = () => askDatabase<SeenAttempt>(database, `${ATTEMPTS} '${id}' ORDER BY 1`);
      const isSent = async () => (await attempts()).length === 2;
      await eventually("both attempts are on record", isSent, NEAR_MS);
      const [first, second] = await attempts();
      assert.ok(first !== undefined && second !== undefined);
      inOrder([first.started, first.ended, second.started - RETRY_MS, second.ended - RETRY_MS]);
    }
  });

  await t.test("a lease is valid at both nodes for its time, and no longer", async () => {
    const token = await cluster.createWorker("press", ["x"]);
    const called = cluster.nodes.map(({ url }) => ({ url, token }));
    const [ahead, behind] = called;
    assert.ok(ahead !== undefined && behind !== undefined);
    const id = await at(0).post({ type: "x" });
    let before = await clockOf(database);
    const [task] = await claim(ahead, { types: ["x"], wait_seconds: 30 });
    assert.ok(task !== undefined);
    inOrder([before + LEASE_MS, Date.parse(task.lease_expires_at)]);
    for (const each of called) {
      const leases = [{ id, lease_id: task.lease_id }];
      before = await clockOf(database);
      const [beat] = await outcomesOf(each, "heartbeat", { leases });
      assert.equal(beat?.outcome, "ok");
      const { until } = await leaseIn(database);
      inOrder([before + LEASE_MS, until, (await clockOf(database)) + LEASE_MS]);
    }
    const { until } = await leaseIn(database);
    const [again] = await claim(behind, { types: ["x"], wait_seconds: 30 });
    assert.deepEqual([again?.id, again?.run], [id, 2]);
    inOrder([until, (await leaseIn(database)).claimed]);
  });

  await t.test("no node logs that a clock was set", () => {
    for (const { daemon } of cluster.nodes) assert.doesNotMatch(daemon.log, /clock/);
  });
});

/** Moments from several nodes and the database: each follows the one before it. */
function inOrder(times: readonly number[]): void {
  const steps = times.slice(1).map((time, i) => time - (times[i] ?? time));
  assert.ok(
    steps.every((step) => step >= -APART_MS),
    `${steps.join(", ")} ms`,
  );
}

async function clockOf(database: string): Promise<number> {
  const now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now";
  return (await askDatabase<{ now: number }>(database, now))[0]?.now ?? Number.NaN;
}

interface SeenTimes {
  readonly created: number;
  readonly started: number;
  readonly completed: number;
}

async function timesOf(database: string, id: string): Promise<SeenTimes> {
  const [times] = await askDatabase<SeenTimes>(
    database,
    `SELECT e.created_at::float8 AS created, e.started_at::float8 AS started, e.completed_at::float8 AS completed
    FROM ends AS e JOIN tasks AS t ON t.seq = e.task_seq WHERE t.id = '${id}'`,
  );
  assert.ok(times !== undefined);
  return times;
}

interface SeenAttempt {
  readonly started: number;
  readonly ended: number;
}

const ATTEMPTS = `
  SELECT a.started_at::float8 AS started, a.ended_at::float8 AS ended
  FROM attempts AS a JOIN tasks AS t ON t.seq = a.task_seq WHERE t.id =`;

/** Of the only lease. */
async function leaseIn(database: string) {
  const [lease] = await askDatabase<{ claimed: number; until: number }>(
    database,
    "SELECT claimed_at::float8 AS claimed, lease_until::float8 AS until FROM queue WHERE lease_id IS NOT NULL",
  );
  assert.ok(lease !== undefined);
  return lease;
}
