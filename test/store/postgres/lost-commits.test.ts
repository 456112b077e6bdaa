import assert from "node:assert/strict";
import { describe, test } from "node:test";

import type { PostgresServer } from "../../../scripts/kit/postgres-server.ts";
import type { Logger } from "../../../src/domain/log.ts";
import { StoreError } from "../../../src/store/store.ts";
import { askDatabase, eventually, openNode } from "../../helpers/postgres-nodes.ts";
import { reasonToSkipStandby, startPostgres } from "../../helpers/postgres.ts";
import { claimOne, newFinish, newPost, newTask, seedAccount } from "../../helpers/store.ts";

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
