import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { TestContext } from "node:test";

import { build, type Plugin } from "esbuild";

import type { Program } from "../../scripts/kit/program.ts";
import { ROOT } from "../../scripts/manifest.ts";
import { TEST_BUNDLE } from "../../scripts/test-bundle.ts";
import { withoutUnusedCode } from "../../scripts/unused-code.ts";
import type { SchemaStep } from "../../src/store/postgres/machine/schema-steps.ts";
import { afterwards } from "../helpers/afterwards.ts";

// From there it finds the packages that are not bundled.
const PLACE = join(ROOT, "node_modules", ".cache");

/** A copy of the program that knows more steps of the schema than there are, and so is of a later version. */
export async function newLaterProgram(
  t: TestContext,
  steps: readonly SchemaStep[],
): Promise<Program> {
  mkdirSync(PLACE, { recursive: true });
  const folder = mkdtempSync(join(PLACE, "later-program-"));
  afterwards(t, () => rmSync(folder, { recursive: true, force: true }));
  const outfile = join(folder, "main.cjs");
  await build({
    ...TEST_BUNDLE,
    entryPoints: [join(ROOT, "src", "main.ts")],
    outfile,
    plugins: [withSteps(steps), withoutUnusedCode()],
  });
  const name = `a program with ${steps.length} more steps`;
  return { name, command: [process.execPath, outfile] };
}

/** Puts steps behind all others of the program. */
function withSteps(steps: readonly SchemaStep[]): Plugin {
  const added = JSON.stringify(steps);
  return {
    name: "steps",
    setup(setup) {
      setup.onLoad({ filter: /\/postgres\/machine\/schema-steps\.ts$/ }, ({ path, suffix }) => {
        // The module itself, as the one in its place imports it.
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
