import assert from "node:assert/strict";
import { test } from "node:test";

import { pageHeaders, signInOperator } from "../../scripts/kit/daemon.ts";
import { askDatabase, eventually } from "../helpers/postgres-nodes.ts";
import { reasonToSkipStandby, startPostgres } from "../helpers/postgres.ts";
import { startCluster } from "./start.ts";

const skip = reasonToSkipStandby();
// A standby that could not connect tries again after 5 s, and a daemon looks every 5 s.
const PATIENCE_MS = 60_000;
const WARNING = "no commit waits for a standby: a failover loses what was acknowledged last";

test(
  "a standby that no commit waits for is logged, shown, and told by each daemon, all of them ready",
  { skip },
  async (t) => {
    const primary = await startPostgres(t);
    await startPostgres(t, { standbyOf: primary });
    const followers = "SELECT FROM pg_stat_replication WHERE state = 'streaming'";
    const isFollowed = async () => (await askDatabase(primary.url, followers)).length === 1;
    await eventually("a standby", isFollowed, PATIENCE_MS);

    const { cluster } = await startCluster(t, { url: primary.url, nodes: 1 });
    // The first check of a node that is alone, and so has every role.
    await eventually("logged", () => cluster.node(0).daemon.log.includes(WARNING), PATIENCE_MS);
    await cluster.grow(1);

    for (const { url } of cluster.nodes) {
      let shown: unknown;
      await eventually(
        "told",
        async () => {
          const answer = await fetch(`${url}/readyz`);
          assert.equal(answer.status, 200);
          shown = await answer.json();
          return Object(shown).warnings !== undefined;
        },
        PATIENCE_MS,
      );
      assert.deepEqual(shown, { status: "ok", warnings: [WARNING] });
    }
    const { daemon } = cluster.node(0);
    const cookie = await signInOperator({ file: cluster.admin, daemon });
    const nodes = await fetch(`${daemon.url}/v1/operator/nodes`, { headers: pageHeaders(cookie) });
    const { database } = Object(await nodes.json());
    assert.deepEqual(database.warnings, [WARNING]);
    assert.equal(database.standbys[0].sync_state, "async");
  },
);
