import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { PostgresProxy } from "../../scripts/kit/postgres-proxy.ts";
import type { PostgresServer } from "../../scripts/kit/postgres-server.ts";
import { afterwards } from "../helpers/afterwards.ts";
import { askDatabase, eventually } from "../helpers/postgres-nodes.ts";
import { reasonToSkipStandby, startPostgres } from "../helpers/postgres.ts";
import { keepPosting } from "./posting.ts";
import { startCluster } from "./start.ts";

const skip = reasonToSkipStandby();

const PATIENCE_MS = 60_000;
const SYNC = "SELECT FROM pg_stat_replication WHERE sync_state = 'sync'";

/** A server whose commits wait for its standby. */
async function startPair(t: TestContext) {
  const primary = await startPostgres(t);
  const standby = await startPostgres(t, { standbyOf: primary });
  primary.reload({ synchronous_standby_names: standby.name });
  const isFollowed = async () => (await askDatabase(primary.url, SYNC)).length === 1;
  await eventually("a synchronous standby", isFollowed, PATIENCE_MS);
  return { primary, standby };
}

/** Whichever takes writes, of the server at that port and its standby. */
function urlOfBoth({ primary, port, standby }: Both): string {
  const hosts = `127.0.0.1:${port},127.0.0.1:${standby.port}`;
  const url = primary.url.replace(`127.0.0.1:${primary.port}`, hosts);
  return `${url}?target_session_attrs=read-write`;
}

interface Both {
  readonly primary: PostgresServer;
  /** Where the primary is reached. */
  readonly port: number;
  readonly standby: PostgresServer;
}

test("kill -9 of a server with a synchronous standby", { skip, timeout: 240_000 }, async (t) => {
  const { primary, standby } = await startPair(t);
  const url = urlOfBoth({ primary, port: primary.port, standby });
  const { cluster, client } = await startCluster(t, { url });
  const posting = keepPosting(cluster.url, cluster.account.key);
  await eventually("posts", () => posting.acknowledged.length > 100, PATIENCE_MS);
  await primary.kill();
  await standby.promote();

  await t.test("all of them go on at the standby, as the processes that they were", async () => {
    const before = posting.acknowledged.length;
    await eventually("posts", () => posting.acknowledged.length > before + 50, PATIENCE_MS);
    for (const { daemon } of cluster.nodes) {
      daemon.requireRunning();
      const isLogged = () => daemon.log.includes("a standby of the database was promoted");
      await eventually("the promotion is logged", isLogged, PATIENCE_MS);
    }
  });

  await t.test("nothing that was acknowledged is lost", async () => {
    await posting.stop();
    assert.deepEqual(posting.faults, []);
    const tasks = await Promise.all(posting.acknowledged.map((id) => client.ended(id)));
    assert.deepEqual(new Set(tasks.map(({ state }) => state)), new Set(["completed"]));
  });
});

test(
  "an old primary that is cut off from its standby, with one daemon",
  { skip, timeout: 240_000 },
  async (t) => {
    const { primary, standby } = await startPair(t);
    const way = await PostgresProxy.open(primary.port);
    afterwards(t, () => way[Symbol.asyncDispose]());
    // Two of them lose their way to the primary. Its standby, promoted, follows no more and confirms no commit there.
    const { cluster, at } = await startCluster(t, {
      url: urlOfBoth({ primary, port: way.port, standby }),
      urlOf: (index) =>
        index === 0 ? primary.url : urlOfBoth({ primary, port: way.port, standby }),
    });
    const cutOff = keepPosting(cluster.node(0).url, cluster.account.key);
    await eventually("posts", () => cutOff.acknowledged.length > 50, PATIENCE_MS);
    await standby.promote();
    way.refuse(true);
    const acknowledged = cutOff.acknowledged.length;
    const refused = cutOff.refused;

    await t.test("the others go on at the standby", async () => {
      const others = keepPosting(cluster.node(1).url, cluster.account.key);
      await eventually("posts", () => others.acknowledged.length > 50, PATIENCE_MS);
      await others.stop();
      assert.deepEqual(others.faults, []);
      const tasks = await Promise.all(others.acknowledged.map((id) => at(2).ended(id)));
      assert.deepEqual(new Set(tasks.map(({ state }) => state)), new Set(["completed"]));
    });

    await t.test("that daemon acknowledges nothing, and says that it may not have", async () => {
      await eventually("refused", () => cutOff.refused >= refused + 3, PATIENCE_MS);
      await cutOff.stop();
      assert.deepEqual(cutOff.faults, []);
      const kept = new Set(await idsAt(standby));
      const lost = cutOff.acknowledged.filter((id) => !kept.has(id));
      assert.deepEqual(lost, []);
      // What the standby had when it was promoted may have been told a moment later.
      assert.ok(cutOff.acknowledged.length <= acknowledged + 3 * IN_FLIGHT_MAX);
      cluster.node(0).daemon.requireRunning();
    });
  },
);

// Of each of its lanes, one post.
const IN_FLIGHT_MAX = 1;

async function idsAt({ url }: PostgresServer): Promise<readonly string[]> {
  const rows = await askDatabase<{ id: string }>(url, "SELECT id::text AS id FROM tasks");
  return rows.map(({ id }) => id);
}
