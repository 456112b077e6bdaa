import assert from "node:assert/strict";
import { test } from "node:test";

import { until } from "../../scripts/kit/until.ts";
import { findFreePort } from "../helpers/port.ts";
import { reasonToSkipPostgres } from "../helpers/postgres.ts";
import { settled, startCluster } from "./start.ts";

const skip = reasonToSkipPostgres();

test(
  "the metrics of each node count the nodes, its own roles, and the work of all nodes",
  { skip, timeout: 240_000 },
  async (t) => {
    const ports = [await findFreePort(), await findFreePort()];
    const flagsOf = (index: number) => ["--metrics", `127.0.0.1:${ports[index]}`];
    const { client, cluster } = await startCluster(t, { nodes: 2, flagsOf });
    await settled(cluster);
    const id = await client.post({ type: "echo" });
    await client.ended(id);

    const read = () =>
      Promise.all(
        ports.map(async (port) => (await fetch(`http://127.0.0.1:${port}/metrics`)).text()),
      );
    let texts = await read();
    // A daemon learns of another at its next heartbeat.
    await until(
      async () => {
        texts = await read();
        return texts.every((text) => text.includes("\npostbackd_nodes 2\n"));
      },
      { msMax: 30_000, fault: () => "a daemon does not know of both" },
    );

    const roles: string[] = [];
    for (const text of texts) {
      assert.match(text, /^postbackd_build_info\{.*database="postgres"\} 1$/m);
      assert.match(text, /^postbackd_tasks\{state="completed"\} 1$/m);
      assert.match(text, /^postbackd_database_data_bytes [1-9]/m);
      assert.doesNotMatch(text, /^postbackd_disk_free_bytes/m);
      const held = text.matchAll(/^postbackd_node_role\{role="(\w+)"\} 1$/gm);
      roles.push(...[...held].map(([, role = ""]) => role));
    }
    const ran = texts.map((text) => /^postbackd_tasks_ended_total\{.*\} (\d+)$/m.exec(text)?.[1]);
    assert.deepEqual(
      ran.filter((count) => count !== undefined),
      ["1"],
    );
    // While they change hands, a role may be two nodes' or none's.
    assert.ok(roles.length > 0 && new Set(roles).size <= 7, roles.join(" "));
  },
);
