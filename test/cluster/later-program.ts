import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { TestContext } from "node:test";

import type { Plugin } from "esbuild";

import { bundleForTests } from "../../scripts/bundle.ts";
import type { Program } from "../../scripts/kit/daemon.ts";
import { ROOT } from "../../scripts/manifest.ts";
import type { SchemaStep } from "../../src/store/postgres/machine/schema.ts";
import { afterwards } from "../helpers/afterwards.ts";

// From there the bundle finds the packages that are not part of it.
const PLACE = join(ROOT, "node_modules", ".cache");

/** A copy of the program with more steps of the schema, as a later version has; removed after the test. */
export async function newLaterProgram(
  t: TestContext,
  steps: readonly SchemaStep[],
): Promise<Program> {
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
