import assert from "node:assert/strict";
import { test } from "node:test";

import type { Cluster } from "../../scripts/kit/cluster.ts";
import { type Program, type ProgramEnd, runProgram } from "../../scripts/kit/daemon.ts";
import { until } from "../../scripts/kit/until.ts";
import { SCHEMA, type SchemaStep } from "../../src/store/postgres/machine/schema.ts";
import { reasonToSkipPostgres } from "../helpers/postgres.ts";
import { newLaterProgram } from "./later-program.ts";
import { keepPosting, notBroken } from "./posting.ts";
import { startCluster } from "./start.ts";

const skip = reasonToSkipPostgres();

// What is posted meanwhile has a colour already: so the colouring comes to an end.
const EXPANSION: SchemaStep = {
  to: SCHEMA.version + 1,
  kind: "expand",
  parts: [
    {
      kind: "change",
      sql: `ALTER TABLE tasks ADD COLUMN IF NOT EXISTS colour text;
            ALTER TABLE tasks ALTER COLUMN colour SET DEFAULT 'blue'`,
    },
    { kind: "index", name: "tasks_by_colour", on: "tasks (colour) WHERE colour <> 'red'" },
    {
      kind: "backfill",
      sql: `UPDATE tasks SET colour = 'red'
            WHERE seq IN (SELECT seq FROM tasks WHERE colour IS NULL ORDER BY seq LIMIT 100)`,
    },
  ],
};

const CONTRACTION: SchemaStep = {
  to: SCHEMA.version + 2,
  kind: "contract",
  parts: [{ kind: "change", sql: "ALTER TABLE tasks ALTER COLUMN colour DROP DEFAULT" }],
};

function migrate({ admin }: Cluster, program: Program): Promise<ProgramEnd> {
  const words = ["database", "migrate", "--json", "--db", admin.database];
  return runProgram(words, { program, folder: admin.folder });
}

test(
  "daemons go to the next version and back, one after the other under load, and no post is refused",
  { skip, timeout: 600_000 },
  async (t) => {
    const { cluster, client } = await startCluster(t);
    const { program: own } = cluster.admin;
    const next = await newLaterProgram(t, [EXPANSION]);
    const second = await newLaterProgram(t, [EXPANSION, CONTRACTION]);
    const posting = keepPosting(cluster.url, cluster.account.key);
    const goOn = async (): Promise<void> => {
      const before = posting.acknowledged.length;
      const fault = (): string => `no posts while all run: ${posting.faults[0]}`;
      await until(() => posting.acknowledged.length > before + 20, { msMax: 60_000, fault });
    };
    const replaceAll = async (program: Program): Promise<void> => {
      for (const node of cluster.nodes) {
        await goOn();
        await node.stop();
        await node.start(program);
      }
      await goOn();
    };

    await t.test("the tables are expanded while daemons of the version before serve", async () => {
      await goOn();
      const { error, stdout, stderr } = await migrate(cluster, next);
      assert.equal(error, null, stderr);
      const { from, to } = JSON.parse(stdout) as { readonly from: number; readonly to: number };
      assert.deepEqual([from, to], [SCHEMA.version, EXPANSION.to]);
      await goOn();
    });

    await t.test("each daemon becomes one of the next version", () => replaceAll(next));

    await t.test(
      "the tables are not contracted meanwhile, and who needs them is named",
      async () => {
        const { error, stderr } = await migrate(cluster, second);
        assert.notEqual(error, null);
        assert.match(stderr, /an older program need: node-1 \(.*\), node-2 \(.*\), node-3 \(/);
      },
    );

    await t.test("each becomes one of its own version again", async () => {
      await replaceAll(own);
      const { error, stderr } = await migrate(cluster, own);
      assert.equal(error, null, stderr);
    });

    await posting.stop();
    assert.deepEqual(
      [notBroken(posting.faults), posting.refused, cluster.balancer.refused],
      [[], 0, 0],
    );

    await t.test("every task ended once, and is read whoever wrote it", async () => {
      const ends = new Set<string>();
      for (let from = 0; from < posting.acknowledged.length; from += 50) {
        const ids = posting.acknowledged.slice(from, from + 50);
        const tasks = await Promise.all(ids.map((id) => client.ended(id)));
        for (const { state, runs } of tasks) ends.add(`${state} ${runs}`);
      }
      assert.deepEqual(ends, new Set(["completed 1"]));
    });

    await t.test("once they are contracted, only who does without starts", async () => {
      await Promise.all(cluster.nodes.map((node) => node.stop()));
      const { error, stderr } = await migrate(cluster, second);
      assert.equal(error, null, stderr);
      for (const [program, version] of [
        [own, SCHEMA.version],
        [next, EXPANSION.to],
      ] as const) {
        const needs = `need a program of version ${CONTRACTION.to}, and this one is of ${version}`;
        await assert.rejects(cluster.node(0).start(program), new RegExp(needs));
      }
      await cluster.node(0).start(second);
      const [id = ""] = posting.acknowledged;
      assert.equal((await client.get(id)).state, "completed");
    });
  },
);
