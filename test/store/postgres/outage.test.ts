import assert from "node:assert/strict";
import { describe, test } from "node:test";

import type { ProxyMessage } from "../../../scripts/kit/postgres-proxy.ts";
import type { PostgresServer } from "../../../scripts/kit/postgres-server.ts";
import type { Logger } from "../../../src/domain/log.ts";
import { type Store, StoreError } from "../../../src/store/store.ts";
import {
  QUICK_BEAT_MS,
  askDatabase,
  eventually,
  openNode,
  openQuickNode,
  startProxy,
  openSession,
} from "../../helpers/postgres-nodes.ts";
import {
  newDatabaseUrl,
  reasonToSkipPostgres,
  reasonToSkipStandby,
  startPostgres,
} from "../../helpers/postgres.ts";
import {
  T0,
  claimOne,
  newFinish,
  newPost,
  newReading,
  newTask,
  pluck,
  seedAccount,
} from "../../helpers/store.ts";

/** How long a client waits. */
const PATIENCE_MS = 2.5 * QUICK_BEAT_MS;

async function failureOf(work: Promise<unknown>): Promise<StoreError> {
  try {
    await work;
  } catch (error) {
    assert(error instanceof StoreError, String(error));
    return error;
  }
  assert.fail("it succeeded");
}

async function msOf(work: Promise<unknown>): Promise<number> {
  const from = performance.now();
  await work;
  return performance.now() - from;
}

/** How many rows there are of each task. */
async function countRows(url: string): Promise<{ tasks: number; open: number; ended: number }> {
  const [row] = await askDatabase<{ tasks: number; open: number; ended: number }>(
    url,
    `SELECT (SELECT count(*) FROM tasks)::int AS tasks, (SELECT count(*) FROM queue)::int AS open,
      (SELECT count(*) FROM ends)::int AS ended`,
  );
  assert(row !== undefined);
  return row;
}

describe("a database that is out of reach", { skip: reasonToSkipPostgres() }, () => {
  test("writes of clients are refused during an outage, and writes of the node settle after it", async (t) => {
    const url = await newDatabaseUrl(t);
    const proxy = await startProxy(t, url);
    const store = await openQuickNode(t, proxy.through(url));
    const accountId = await seedAccount(store);
    const [early, late] = [newTask(), newTask()];
    proxy.shut();

    let isSettled = false;
    const own = Promise.allSettled([store.keepSecret({ name: "cursors", fresh: "kept" })]);
    void own.then(() => (isSettled = true));
    const first = await failureOf(store.insertTasks(newPost(accountId, [early])));

    assert.equal(first.kind, "unreachable");
    await eventually("down", async () => {
      const work = store.insertTasks(newPost(accountId, [late]));
      return (await msOf(failureOf(work))) < PATIENCE_MS / 10;
    });
    await eventually("fenced", () => !store.cluster.isMember());
    assert.equal(isSettled, false);
    proxy.reopen();
    const [ended] = await own;
    // The node repeats the writes of an ended life itself.
    assert(ended.status === "rejected" && ended.reason.kind === "unreachable");
    await eventually("member", () => store.cluster.isMember());
    const third = newTask();
    assert.deepEqual(await store.insertTasks(newPost(accountId, [third])), { kind: "inserted" });
    const found = (id: string) => store.findTask({ accountId, id });
    assert.deepEqual([await found(early.id), await found(late.id)], [null, null]);
    assert.notEqual(await found(third.id), null);
  });

  test("the outcome of a write without a reply to its commit is unknown, and it is whole", async (t) => {
    const url = await newDatabaseUrl(t);
    const proxy = await startProxy(t, url);
    const store = await openQuickNode(t, proxy.through(url));
    const accountId = await seedAccount(store);
    const tasks = [newTask(), newTask()];
    // The commit arrives, its reply does not.
    proxy.judge = ({ from, type, text }) => {
      if (from === "server" && type === "C" && text.startsWith("COMMIT")) proxy.hold();
      return "pass";
    };

    const failure = await failureOf(store.insertTasks(newPost(accountId, tasks)));

    assert.equal(failure.kind, "unknown");
    assert.equal(store.fault(), null);
    proxy.judge = () => "pass";
    proxy.release();
    await eventually("member", () => store.cluster.isMember());
    await seedAccount(store, "eve");
    assert.deepEqual(await countRows(url), { tasks: 2, open: 2, ended: 0 });
  });

  test("a committed batch is found committed after its stripes were taken", async (t) => {
    const url = await newDatabaseUrl(t);
    const proxy = await startProxy(t, url);
    const store = await openQuickNode(t, proxy.through(url));
    const accountId = await seedAccount(store);
    await store.insertTasks(newPost(accountId, [newTask()]));
    const other = await openSession(t, url);
    const committed = Promise.withResolvers<void>();
    proxy.judge = ({ from, type, text }) => {
      if (from === "server" && type === "C" && text.startsWith("COMMIT")) {
        proxy.hold();
        committed.resolve();
      }
      return "pass";
    };

    const claim = store.claimTasks({ type: "echo", max: 1, now: T0 });
    await committed.promise;
    await other.query("BEGIN");
    await other.query("UPDATE stripes SET node_seq = NULL WHERE node_seq IS NOT NULL");
    proxy.judge = () => "pass";
    proxy.cutAll();
    proxy.release();
    await eventually("it waits to see how the batch ended", async () => {
      const waiting = await askDatabase(
        url,
        `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%FROM stripes%FOR UPDATE%'`,
      );
      return waiting.length > 0;
    });
    await other.query("COMMIT");

    assert.equal((await claim).length, 1);
  });

  test("a store is closed within seconds, and may be closed again", async (t) => {
    const url = await newDatabaseUrl(t);
    const proxy = await startProxy(t, url);
    for (const how of ["shut", "hold"] as const) {
      const store = await openQuickNode(t, proxy.through(url));
      proxy[how]();
      const write = failureOf(store.keepClockReading(newReading()));

      const ms = await msOf(Promise.all([store.close(), store.close()]));

      assert(ms < 4000, `${how}: ${ms} ms`);
      await write;
      await store.close();
      proxy.reopen();
      proxy.release();
    }
  });

  test("a kill -9 of PostgreSQL keeps all acknowledged writes, and both nodes continue", async (t) => {
    const server = await startPostgres(t);
    const stores = [await openQuickNode(t, server.url), await openQuickNode(t, server.url)];
    const [first, second] = stores;
    assert(first !== undefined && second !== undefined);
    const accountId = await seedAccount(first);
    const acknowledged = new Set<string>();
    const unknown = new Set<string>();
    let isOver = false;
    const load = async (store: Store): Promise<void> => {
      while (!isOver) {
        const task = newTask();
        try {
          await store.insertTasks(newPost(accountId, [task]));
          acknowledged.add(task.id);
        } catch (error) {
          assert(error instanceof StoreError, String(error));
          if (error.kind === "unknown") unknown.add(task.id);
          await new Promise((resolve) => setImmediate(resolve));
        }
      }
    };
    const loads = stores.flatMap((store) => Array.from({ length: 8 }, () => load(store)));
    for (let i = 0; i < 3; i++) {
      const count = acknowledged.size;
      await eventually("posted", () => acknowledged.size > count + 200);
      await server.kill();
      await server.startAgain();
      await eventually("both work", () => stores.every(({ cluster }) => cluster.isMember()), 5000);
    }
    isOver = true;
    await Promise.all(loads);

    const rows = await askDatabase<{ id: string }>(server.url, "SELECT id FROM tasks");
    const kept = new Set(pluck(rows, "id"));

    assert.deepEqual(
      [...acknowledged].filter((id) => !kept.has(id)),
      [],
    );
    const unexplained = [...kept].filter((id) => !acknowledged.has(id) && !unknown.has(id));
    assert.deepEqual(unexplained, []);
    // A write of unknown outcome may still be committed.
    await eventually("counted", async () => {
      const [{ tasks }, { queued }] = await Promise.all([
        countRows(server.url),
        first.countWork(accountId),
      ]);
      return tasks === queued;
    });
    assert.equal(
      stores.every((store) => store.fault() === null),
      true,
    );
  });
});

/** How often the connection is cut: more in a long run. */
const CUTS = Number(process.env["POSTBACKD_TEST_CUTS"] ?? 120);

describe("a connection that is cut", { skip: reasonToSkipPostgres() }, () => {
  test("a cut at any message of a batch keeps each task once, run once and counted once", async (t) => {
    const url = await newDatabaseUrl(t);
    const proxy = await startProxy(t, url);
    const store = await openQuickNode(t, proxy.through(url), { beatMs: 2000 });
    const accountId = await seedAccount(store);
    const claimed: number[] = [];
    let posted = 0;

    for (let i = 0; i < CUTS; i++) {
      let left = i % 60;
      const isCut = (message: ProxyMessage): boolean => message.type !== "" && left-- === 0;
      proxy.judge = (message) => (isCut(message) ? (i % 2 === 0 ? "cut" : "pass and cut") : "pass");
      const posts = Array.from({ length: 3 }, () => newPost(accountId, [newTask(), newTask()]));
      const [tasks] = await Promise.all([
        store.claimTasks({ type: "echo", max: 4, now: T0 }),
        ...posts.map((post) => store.insertTasks(post)),
      ]);
      posted += 6;
      claimed.push(...tasks.map(({ seq }) => seq));
      await Promise.all(tasks.map((task) => store.finishTask(newFinish(task))));
    }
    proxy.judge = () => "pass";

    assert.equal(new Set(claimed).size, claimed.length);
    const rows = await countRows(url);
    const open = posted - claimed.length;
    assert.deepEqual(rows, { tasks: posted, open, ended: claimed.length });
    const work = await store.countWork(accountId);
    assert.deepEqual([work.queued, work.running, work.completed], [open, 0, claimed.length]);
    assert(store.cluster.isMember());
    t.diagnostic(`${CUTS} cuts, ${posted} tasks`);
  });
});

const WAIT_MS_MAX = 60_000;

/** So slow that the length of a failover ends no life. */
const SLOW_BEAT_MS = 10_000;

/** Keeps the messages of errors. */
function newLog(): { readonly log: Logger; readonly errors: string[] } {
  const errors: string[] = [];
  const error = (_: unknown, message: string): void => void errors.push(message);
  return { log: { debug() {}, info() {}, warn() {}, error }, errors };
}

async function startPair(t: Parameters<typeof startPostgres>[0]) {
  const primary = await startPostgres(t);
  const standby = await startPostgres(t, { standbyOf: primary });
  const { port } = primary;
  const url = primary.url.replace(`:${port}/`, `:${port},127.0.0.1:${standby.port}/`);
  return { primary, standby, url };
}

/** From now on the standby gets nothing more. */
async function partServers(primary: PostgresServer, standby: PostgresServer): Promise<void> {
  await askDatabase(standby.url, "ALTER SYSTEM SET primary_conninfo = ''");
  await askDatabase(standby.url, "SELECT pg_reload_conf()");
  const isAlone = async (): Promise<boolean> =>
    (await askDatabase(primary.url, "SELECT 1 FROM pg_stat_replication")).length === 0;
  await eventually("the standby has parted", isAlone, WAIT_MS_MAX);
}

describe("a standby that was behind when it was promoted", { skip: reasonToSkipStandby() }, () => {
  test("a promoted standby without the last commits ends the life of the node, which logs the loss", async (t) => {
    const { primary, standby, url } = await startPair(t);
    const { log, errors } = newLog();
    const store = await openNode(t, url, { log, beatMs: SLOW_BEAT_MS });
    const accountId = await seedAccount(store);
    await store.insertTasks(newPost(accountId, [newTask()]));
    const hasIt = async (): Promise<boolean> =>
      (await askDatabase(standby.url, "SELECT 1 FROM queue")).length === 1;
    await eventually("the standby has the task", hasIt, WAIT_MS_MAX);
    await partServers(primary, standby);
    const lost = await claimOne(store);
    const { self } = store.cluster;

    await primary.kill();
    await standby.promote();
    const refused = await store.keepSecret({ name: "cursors", fresh: "kept" }).then(
      () => null,
      (error: unknown) => error,
    );

    assert(refused instanceof StoreError && refused.isPassing, "of a life that is over");
    await eventually("joined", () => store.cluster.isMember(), WAIT_MS_MAX);
    assert.notEqual(store.cluster.self, self);
    assert.equal(errors.length, 1);
    assert.match(errors[0] ?? "", /^the database lost its last acknowledged commits/);
    const again = await claimOne(store);
    assert.deepEqual([again.id, again.runs], [lost.id, 1]);
    assert.deepEqual(await store.finishTask({ ...newFinish(again), id: again.id, run: 1 }), []);
  });

  test("a promoted standby with all commits keeps the life of the node", async (t) => {
    const { primary, standby, url } = await startPair(t);
    primary.reload({ synchronous_standby_names: standby.name });
    const isSynchronous = async (): Promise<boolean> => {
      const text = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'";
      return (await askDatabase(primary.url, text)).length === 1;
    };
    await eventually("synchronous", isSynchronous, WAIT_MS_MAX);
    const { log, errors } = newLog();
    const store = await openNode(t, url, { log, beatMs: SLOW_BEAT_MS });
    const accountId = await seedAccount(store);
    await store.insertTasks(newPost(accountId, [newTask()]));
    const claimed = await claimOne(store);
    const { self } = store.cluster;

    await primary.kill();
    await standby.promote();

    assert.deepEqual(await store.finishTask({ ...newFinish(claimed), id: claimed.id, run: 1 }), []);
    assert.equal(store.cluster.self, self);
    assert.deepEqual(errors, []);
  });
});
