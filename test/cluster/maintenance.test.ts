import assert from "node:assert/strict";
import { test } from "node:test";

import pg from "pg";

import { afterwards } from "../helpers/afterwards.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../helpers/postgres.ts";
import { claim } from "../http/worker-requests.ts";
import { startCluster } from "./start.ts";

const TABLES = ["lease_types", "idempotency_keys", "ends", "keys"];

test(
  "a table that an operator locks is 50300 with Retry-After, and every engine goes on",
  { skip: reasonToSkipPostgres(), timeout: 240_000 },
  async (t) => {
    const url = await newDatabaseUrl(t);
    const more = `\n[types.x]\nrunner = "worker"\nconcurrency = 2\nlease = "60s"\n`;
    const { cluster, at } = await startCluster(t, { url, more, nodes: 2 });
    const token = await cluster.createWorker("press", ["x"]);
    const operator = new pg.Client(url);
    await operator.connect();
    afterwards(t, () => operator.end());
    const post = async (place: number, key: string): Promise<void> => {
      const answer = await at(place).call("/v1/tasks/task_post", {
        method: "POST",
        headers: { "idempotency-key": key },
        body: '[{"type":"echo"},{"type":"x"}]',
      });
      const { status_code: code } = (await answer.json()) as { readonly status_code: number };
      assert.ok(code === 20000 || code === 50300, `${key}: ${code}`);
      assert.equal(answer.headers.has("retry-after"), code === 50300, key);
    };
    const claims = async (): Promise<void> => {
      const places = cluster.nodes.map((node) => ({ url: node.url, token }));
      await Promise.allSettled(places.map((place) => claim(place, { types: ["x"] })));
    };
    await Promise.all([post(0, "first"), post(1, "second")]);
    await claims();

    for (const table of TABLES) {
      await operator.query(`BEGIN; LOCK TABLE ${table}`);
      const posts = Array.from({ length: 8 }, (_, i) => post(i % 2, `${table} ${i}`));
      await Promise.all([...posts, claims()]);
      await operator.query("ROLLBACK");
    }

    for (const [i, node] of cluster.nodes.entries()) {
      const id = await at(i).post({ type: "echo" });
      assert.equal((await at(i).ended(id)).state, "completed");
      assert.equal((await fetch(`${node.url}/readyz`)).status, 200);
    }
  },
);
