import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, describe, test } from "node:test";
import { inspect } from "node:util";

import type pg from "pg";

import { type Store, StoreError } from "../../../src/store/store.ts";
import {
  askDatabase,
  eventually,
  openNode,
  openPatientNode,
  openSession,
} from "../../helpers/postgres-nodes.ts";
import { newDatabaseUrl, reasonToSkipPostgres, startPostgres } from "../../helpers/postgres.ts";
import {
  RETENTION_MS,
  T0,
  newLeaseClaim,
  newLeaseEnd,
  newPost,
  newTask,
  newTaskCancels,
  pluck,
  retainedUntil,
  seedAccount,
  seedWorker,
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

// A client waits half of this time for a write.
const BEAT_MS = 20_000;

/** A process that was stopped in the middle of a transaction. */
async function openOther(t: TestContext, url: string): Promise<pg.Client> {
  const client = await openSession(t, url);
  await client.query("BEGIN");
  return client;
}

describe("rows that another session locks for long", { skip: reasonToSkipPostgres() }, () => {
  test("locked rows make their own operations busy, not their batch", async (t) => {
    const url = await newDatabaseUrl(t);
    const store = await openNode(t, url, { beatMs: BEAT_MS });
    const accountId = await seedAccount(store);
    const [held, free] = [newTask({ type: "held" }), newTask({ type: "free" })];
    await store.insertTasks(newPost(accountId, [held, free]));
    const other = await openOther(t, url);
    await other.query("SELECT FROM queue WHERE type = 'held' FOR UPDATE");
    const end = { accountId, cancelledAt: T0, ...retainedUntil(T0 + RETENTION_MS) };
    const cancel = (id: string) => store.cancelTask({ ...end, id });
    const refused = async (id: string): Promise<void> => {
      await assert.rejects(cancel(id), (error) => {
        assert(error instanceof StoreError);
        return error.kind === "busy";
      });
    };

    // Of one turn, so they are one batch.
    const posts = Array.from({ length: 9 }, () => newPost(accountId, [newTask()]));
    const answers = await Promise.all([
      refused(held.id),
      cancel(free.id),
      store.cancelTasks(newTaskCancels(accountId, { ids: [] })),
      ...posts.map((post) => store.insertTasks(post)),
    ]);

    assert.equal(answers[1], "cancelled");
    assert.deepEqual(
      answers.slice(3),
      posts.map(() => ({ kind: "inserted" })),
    );
    await refused(held.id);
    await other.query("ROLLBACK");
    assert.equal(await cancel(held.id), "cancelled");
  });

  test("a claim of a type that is locked is busy, and succeeds afterwards", async (t) => {
    const url = await newDatabaseUrl(t);
    const store = await openNode(t, url, { beatMs: BEAT_MS });
    const workerId = await seedWorker(store);
    const claim = newLeaseClaim(workerId);
    await store.insertTasks(newPost(await seedAccount(store), [newTask()]));
    assert.equal((await store.claimLeases({ ...claim, max: 0 })).length, 0);
    const other = await openOther(t, url);
    await other.query("LOCK TABLE lease_types");
    const claims = await Promise.allSettled([store.claimLeases(claim), store.claimLeases(claim)]);
    assert.deepEqual(claims.map(kindOf), ["busy", "busy"]);
    await other.query("ROLLBACK");
    assert.equal((await store.claimLeases(claim)).length, 1);
  });

  for (const table of ["tasks", "accounts", "idempotency_keys"]) {
    test(`a post during maintenance of ${table} is busy, and succeeds afterwards`, async (t) => {
      const url = await newDatabaseUrl(t);
      const store = await openNode(t, url, { beatMs: BEAT_MS });
      const accountId = await seedAccount(store);
      const other = await openOther(t, url);
      await other.query(`LOCK TABLE ${table}`);
      const idempotency = { key: "k", bodyHash: "h", answerText: "{}", steadyAt: T0 };
      const kept = { idempotency: { ...idempotency, eraseAt: T0 + 9 } };
      const post = () => store.insertTasks(newPost(accountId, [newTask()], kept));
      const [ended] = await Promise.allSettled([post()]);
      assert.equal(kindOf(ended), "busy");
      await other.query("ROLLBACK");
      assert.deepEqual(await post(), { kind: "inserted" });
    });
  }

  const conflicts = {
    "a serialization failure": "RAISE SQLSTATE '40001'",
    "a deadlock": "RAISE SQLSTATE '40P01'",
    "a cancelled statement": "RAISE SQLSTATE '57014'",
    "a full work memory": "RAISE SQLSTATE '53400'",
    "another node's change": "RETURN NULL",
  };
  for (const [conflict, effect] of Object.entries(conflicts)) {
    test(`a post with ${conflict} at each try is busy, and other posts succeed`, async (t) => {
      const url = await newDatabaseUrl(t);
      const store = await openNode(t, url, { beatMs: BEAT_MS });
      const accountId = await seedAccount(store);
      await askDatabase(
        url,
        `CREATE FUNCTION meet() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${effect}; END $$;
        CREATE TRIGGER meet BEFORE INSERT ON idempotency_keys FOR EACH ROW
          WHEN (NEW.key = 'unlucky') EXECUTE FUNCTION meet()`,
      );
      const post = (key: string) => {
        const idempotency = { key, bodyHash: "h", answerText: "{}", steadyAt: T0, eraseAt: T0 + 9 };
        return store.insertTasks(newPost(accountId, [newTask()], { idempotency }));
      };

      const posts = await Promise.allSettled(["a", "unlucky", "b"].map(post));

      assert.deepEqual(
        posts.map((ended) => (ended.status === "fulfilled" ? ended.value.kind : kindOf(ended))),
        ["inserted", "busy", "inserted"],
      );
      assert.equal(store.fault(), null);
    });
  }
});

/** The kind of a write's StoreError. */
function kindOf(ended: PromiseSettledResult<unknown>): string {
  assert(ended.status === "rejected" && ended.reason instanceof StoreError, inspect(ended));
  return ended.reason.kind;
}
