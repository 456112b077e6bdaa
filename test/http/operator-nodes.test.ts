import assert from "node:assert/strict";
import { hostname } from "node:os";
import { test } from "node:test";

import { version } from "../../src/assets.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { ask } from "./answer.ts";
import { OPERATOR, signInOperator } from "./operator-requests.ts";
import { startRing } from "./ring.ts";
import { FROM_PAGE } from "./session-requests.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const TYPES = `
[types.hold]
command = ["/bin/sleep", "60"]
`;

test("a daemon with a file of its own is the one node, with every role and what it runs", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock, toml: TYPES });
  const operator = await signInOperator(daemon, NOW);
  const show = async () => (await operator.get("/nodes")).fields.nodes;
  await daemon.post([{ type: "hold" }]);
  // Posted and claimed in two commits: the request after them may come between.
  while ((await show())[0]?.running?.length === 0) continue;

  const { nodes, database } = (await operator.get("/nodes")).fields;

  assert.equal(database, null);
  const [node, ...others] = nodes;
  assert.deepEqual(others, []);
  const { id, ...shown } = node ?? assert.fail("no node");
  assert.match(id, /^[0-9a-f-]{36}$/);
  const at = "2030-01-31T09:00:00.000Z";
  assert.deepEqual(shown, {
    ...{ name: hostname(), version, url: daemon.url, answers: true },
    ...{ joined_at: at, last_seen_at: at, ended_at: null, is_lost: false },
    roles: ["release", "reap", "orders", "sweep", "sample", "fold", "clock"],
    ...{ running: [{ type: "hold", runs: 1 }], sending: 0 },
  });
});

clusterTest(
  "shows the health of a database that nodes share, with what the operator should mend",
  async (t) => {
    const standby = {
      name: "east",
      state: "streaming",
      syncState: "async",
      lagBytes: 64,
      lagMs: 5,
    };
    const slot = { holder: "slot", name: "copy", pid: null, transactions: 900 } as const;
    const health = {
      ...{ version: "15.14", bytes: 1000, connections: { used: 9, max: 100 } },
      ...{ oldestSnapshot: { ...slot, ageMs: 61_000 }, standbys: [standby], commitsWait: false },
      deadRows: { queue: 3, outbox: 4 },
    };
    const { url, cookie } = await startRing(t, {
      store: { findDatabaseHealth: async () => health },
    });

    const { body } = await ask(url, {
      target: `${OPERATOR}/nodes`,
      headers: [...FROM_PAGE, cookie],
    });

    const { warnings, ...shown } = Object(Object(body)["database"]);
    assert.equal(warnings.length, 2);
    assert.match(warnings[0], /cleaning up/);
    assert.match(warnings[1], /no commit waits for a standby/);
    assert.deepEqual(shown, {
      ...{ version: "15.14", bytes: 1000, connections: { used: 9, max: 100 } },
      oldest_snapshot: { ...slot, age_ms: 61_000 },
      standbys: [
        { name: "east", state: "streaming", sync_state: "async", lag_bytes: 64, lag_ms: 5 },
      ],
      ...{ commits_wait: false, dead_rows: { queue: 3, outbox: 4 } },
    });
  },
);
