import assert from "node:assert/strict";
import { test } from "node:test";

import { PostgresProxy } from "../../scripts/kit/postgres-proxy.ts";
import { afterwards } from "../helpers/afterwards.ts";
import { askDatabase, eventually } from "../helpers/postgres-nodes.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../helpers/postgres.ts";
import { keepPosting } from "./posting.ts";
import { startCluster } from "./start.ts";

const skip = reasonToSkipPostgres();

// Of the daemon's sessions; the server looks at the time by itself. What a busy machine adds is in it.
const IDLE_MS_MAX = 40_000;
const PATIENCE_MS = 60_000;

// The test's own database: others may use the server.
const IDLE_IN_TRANSACTION = `
  SELECT pid FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND pid IN (
    SELECT pid FROM pg_locks WHERE relation IN ('stripes'::regclass, 'queue'::regclass, 'outbox'::regclass))`;

test(
  "a daemon that is stopped between a statement and its COMMIT",
  { skip, timeout: 240_000 },
  async (t) => {
    const url = await newDatabaseUrl(t);
    const proxy = await PostgresProxy.open(Number(new URL(url).port));
    afterwards(t, () => proxy[Symbol.asyncDispose]());
    const { cluster, at } = await startCluster(t, {
      url,
      urlOf: (index) => (index === 0 ? proxy.through(url) : url),
    });
    const victim = cluster.node(0);
    const own = keepPosting(victim.url, cluster.account.key);
    await eventually("posts", () => own.acknowledged.length > 20, PATIENCE_MS);
    const isOpen = async () => (await askDatabase(url, IDLE_IN_TRANSACTION)).length > 0;
    await proxy.holdOpenTransaction();
    victim.pause();
    await eventually("a session that waits inside its transaction", isOpen, PATIENCE_MS);
    const acknowledged = [...own.acknowledged];

    await t.test("the others go on meanwhile", async () => {
      const others = keepPosting(cluster.url, cluster.account.key);
      await eventually("posts", () => others.acknowledged.length > 50, PATIENCE_MS);
      await others.stop();
      assert.deepEqual([others.faults, others.refused], [[], 0]);
      const tasks = await Promise.all(others.acknowledged.map((id) => at(1).ended(id)));
      assert.deepEqual(new Set(tasks.map(({ state }) => state)), new Set(["completed"]));
    });

    await t.test("the server ends its session, and the others end its tasks", async () => {
      await eventually("no such session", async () => !(await isOpen()), IDLE_MS_MAX);
      const tasks = await Promise.all(acknowledged.map((id) => at(2).ended(id)));
      assert.deepEqual(new Set(tasks.map(({ state }) => state)), new Set(["completed"]));
    });

    await t.test("when it goes on, it joins again, and everything ends once", async () => {
      victim.resume();
      const before = own.acknowledged.length;
      await eventually("posts at it", () => own.acknowledged.length > before + 20, PATIENCE_MS);
      await own.stop();
      assert.deepEqual(own.faults, []);
      const tasks = await Promise.all(own.acknowledged.map((id) => at(0).ended(id)));
      assert.deepEqual(new Set(tasks.map(({ state }) => state)), new Set(["completed"]));
      victim.daemon.requireRunning();
    });
  },
);
