import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test, type TestContext } from "node:test";

import type pg from "pg";

import type { Store } from "../../../src/store/store.ts";
import { eventually, openPatientNode, openSession } from "../../helpers/postgres-nodes.ts";
import { reasonToSkipPostgres, startPostgres } from "../../helpers/postgres.ts";
import {
  newLeaseClaim,
  newLeaseEnd,
  newPost,
  newTask,
  newTaskCancels,
  retainedUntil,
  RETENTION_MS,
  seedAccount,
  seedWorker,
  T0,
  pluck,
} from "../../helpers/store.ts";

const ROUNDS = 4;

/** Two nodes on a server that logs every deadlock soon. */
async function openNodes(t: TestContext) {
  const server = await startPostgres(t, { settings: { deadlock_timeout: "20ms" } });
  const stores = [
    await openPatientNode(t, server.url),
    await openPatientNode(t, server.url),
  ] as const;
  const session = await openSession(t, server.url);
  return { server, stores, session };
}

/** Two concurrent steps of each node, in opposite order. */
type Steps = (
  store: Store,
  tasks: { readonly mine: readonly Held[]; readonly yours: readonly Held[] },
) => readonly Promise<unknown>[];

interface Held {
  readonly id: string;
  readonly leaseId: string;
}

/** Each pair of steps crosses: what one node names first, the other names last. */
const CROSSING: Readonly<Record<string, (of: Cast) => Steps>> = {
  "heartbeats and ends of leases":
    ({ workerId }) =>
    (store, { mine, yours }) => [
      store.endLeases({ ends: mine.map((lease) => newLeaseEnd(lease)), workerId, now: T0 + 1 }),
      store.extendLeases({ leases: yours, workerId, now: T0 + 1 }),
    ],
  "heartbeats, and posts under a key":
    ({ accountId, workerId }) =>
    (store, { mine, yours }) => [
      store.insertTasks(newPost(accountId, [newTask()], { idempotency: keyOf(mine) })),
      store.insertTasks(newPost(accountId, [newTask()], { idempotency: keyOf(yours) })),
      store.endLeases({ ends: mine.map((lease) => newLeaseEnd(lease)), workerId, now: T0 + 1 }),
      store.extendLeases({ leases: yours, workerId, now: T0 + 1 }),
    ],
  "cancels of single tasks":
    ({ accountId }) =>
    (store, { mine, yours }) =>
      [...mine, ...yours].map(({ id }) =>
        store.cancelTask({ accountId, id, cancelledAt: T0, ...retainedUntil(T0 + RETENTION_MS) }),
      ),
  "cancels of many tasks":
    ({ accountId }) =>
    (store, { mine, yours }) =>
      [mine, yours].map((tasks) =>
        store.cancelTasks(newTaskCancels(accountId, { ids: pluck(tasks, "id") })),
      ),
  "erasures of tasks":
    () =>
    (store, { mine, yours }) =>
      [...mine, ...yours].map(({ id }) => store.eraseTask({ id, hasWebhooks: true })),
  "heartbeats and progress":
    ({ workerId }) =>
    (store, { mine, yours }) => [
      store.extendLeases({ leases: mine, workerId, now: T0 + 1 }),
      store.noteProgress(
        yours.map(({ id, leaseId }) => {
          return { id, by: { leaseId }, progress: { progress: 0.5, note: null } };
        }),
      ),
    ],
};

interface Cast {
  readonly accountId: number;
  readonly workerId: number;
}

function keyOf([first]: readonly Held[]) {
  const kept = { steadyAt: T0, eraseAt: T0 + 1 };
  return { key: first?.id ?? "", bodyHash: "hash", answerText: "{}", ...kept };
}

describe("nodes that share a database", { skip: reasonToSkipPostgres() }, () => {
  test("concurrent batches in opposite order do not deadlock", async (t) => {
    const nodes = await openNodes(t);
    for (const [i, [what, stepsOf]] of Object.entries(CROSSING).entries()) {
      await t.test(what, async () => {
        const [store] = nodes.stores;
        const accountId = await seedAccount(store, `ada-${i}`);
        const cast = { accountId, workerId: await seedWorker(store, `w-${i}`) };
        const before = deadlocks(nodes);
        for (let round = 0; round < ROUNDS; round++) await cross(nodes, cast, stepsOf(cast));
        assert.equal(deadlocks(nodes), before);
      });
    }
  });
});

type Nodes = Awaited<ReturnType<typeof openNodes>>;

/** Runs the steps at both nodes concurrently, on the same tasks. */
async function cross({ stores, session }: Nodes, cast: Cast, steps: Steps): Promise<void> {
  const [one, other] = stores;
  const tasks = Array.from({ length: 8 }, () => newTask());
  await one.insertTasks(newPost(cast.accountId, tasks));
  const held = await one.claimLeases(newLeaseClaim(cast.workerId, { max: 8 }));
  const [mine, yours] = [held.slice(0, 4), held.slice(4)];

  // Both are at their first lock when they go on together.
  await session.query("BEGIN");
  await session.query("SELECT 1 FROM queue FOR UPDATE");
  const both = [...steps(one, { mine, yours }), ...steps(other, { mine: yours, yours: mine })];
  await eventually("both wait", async () => (await waiting(session)) >= 2, 30_000);
  await session.query("ROLLBACK");
  await Promise.all(both);
}

/** The server logs a deadlock before it cancels a batch. */
function deadlocks({ server }: Nodes): number {
  const log = readFileSync(join(server.folder, "server.log"), "utf8");
  return log.split("deadlock detected").length - 1;
}

async function waiting(session: pg.Client): Promise<number> {
  const { rows } = await session.query<{ count: number }>(
    "SELECT count(*)::int AS count FROM pg_locks WHERE NOT granted",
  );
  return rows[0]?.count ?? 0;
}
