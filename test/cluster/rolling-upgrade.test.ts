import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { type TestContext, test } from "node:test";

import type { Plugin } from "esbuild";

import { bundleForTests } from "../../scripts/bundle.ts";
import type { Cluster } from "../../scripts/kit/cluster.ts";
import { type Program, runProgram } from "../../scripts/kit/daemon.ts";
import { until } from "../../scripts/kit/until.ts";
import { ROOT } from "../../scripts/manifest.ts";
import { SCHEMA, type SchemaStep } from "../../src/store/postgres/machine/schema.ts";
import { afterwards } from "../helpers/afterwards.ts";
import { reasonToSkipPostgres } from "../helpers/postgres.ts";
import { keepPosting, notBroken } from "./posting.ts";
import { startCluster } from "./start.ts";

// From there the bundle finds the packages that are not part of it.
const PLACE = join(ROOT, "node_modules", ".cache");

/** A copy of the program with more steps of the schema, as a later version has; removed after the test. */
async function newLaterProgram(t: TestContext, steps: readonly SchemaStep[]): Promise<Program> {
  mkdirSync(PLACE, { recursive: true });
  const folder = mkdtempSync(join(PLACE, "later-program-"));
  afterwards(t, () => rmSync(folder, { recursive: true, force: true }));
  const outfile = join(folder, "main.cjs");
  const entryPoints = [join(ROOT, "src", "main.ts")];
  await bundleForTests({ entryPoints, outfile, plugins: [withSteps(steps)] });
  return { name: "a later program", command: [process.execPath, outfile] };
}

function withSteps(steps: readonly SchemaStep[]): Plugin {
  const added = JSON.stringify(steps);
  return {
    name: "steps",
    setup(setup) {
      setup.onLoad({ filter: /\/postgres\/machine\/schema\.ts$/ }, ({ path, suffix }) => {
        // The original module, which its replacement imports.
        if (suffix !== "") return undefined;
        const own = JSON.stringify(`./${basename(path)}?own`);
        const contents = `
          import { SCHEMA as own } from ${own};
          export * from ${own};
          export const SCHEMA = { ...own, version: own.version + ${steps.length}, steps: [...own.steps, ...${added}] };`;
        return { contents, resolveDir: dirname(path) };
      });
    },
  };
}

// New tasks have a colour already, so the backfill ends under load.
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

async function migrate({ admin }: Cluster, program: Program): Promise<unknown> {
  const words = ["database", "migrate", "--json", "--db", admin.database];
  const { error, stdout, stderr } = await runProgram(words, { program, folder: admin.folder });
  assert.equal(error, null, stderr);
  return JSON.parse(stdout);
}

test(
  "nodes go to the next version and back, one after the other under load, and no post is refused",
  { skip: reasonToSkipPostgres(), timeout: 600_000 },
  async (t) => {
    const { cluster, client } = await startCluster(t, { nodes: 2 });
    const { program: own } = cluster.admin;
    const next = await newLaterProgram(t, [EXPANSION]);
    const posting = keepPosting(cluster.url, cluster.account.key);
    const goOn = async (): Promise<void> => {
      const before = posting.acknowledged.length;
      const fault = (): string => `no posts while both run: ${posting.faults[0]}`;
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

    await goOn();
    const { from, to } = Object(await migrate(cluster, next));
    assert.deepEqual([from, to], [SCHEMA.version, EXPANSION.to]);
    await replaceAll(next);
    await replaceAll(own);
    await migrate(cluster, own);
    await posting.stop();

    const { faults, acknowledged, seen } = posting;
    assert.deepEqual([notBroken(faults), seen.refused, cluster.balancer.refused], [[], 0, 0]);
    const ends = new Set<string>();
    for (let first = 0; first < acknowledged.length; first += 50) {
      const ids = acknowledged.slice(first, first + 50);
      const tasks = await Promise.all(ids.map((id) => client.ended(id)));
      for (const { state, runs } of tasks) ends.add(`${state} ${runs}`);
    }
    assert.deepEqual(ends, new Set(["completed 1"]));
  },
);
