import { basename, dirname } from "node:path";
import type { TestContext } from "node:test";

import type { Plugin } from "esbuild";

import type { Program } from "../../scripts/kit/daemon.ts";
import type { SchemaStep } from "../../src/store/postgres/machine/schema.ts";
import { newChangedProgram } from "./changed-program.ts";

/** A copy of the program that knows more steps of the schema than there are, and so is of a later version. */
export function newLaterProgram(t: TestContext, steps: readonly SchemaStep[]): Promise<Program> {
  const name = `a program with ${steps.length} more steps`;
  return newChangedProgram(t, { name, change: withSteps(steps) });
}

/** Puts steps behind all others of the program. */
function withSteps(steps: readonly SchemaStep[]): Plugin {
  const added = JSON.stringify(steps);
  return {
    name: "steps",
    setup(setup) {
      setup.onLoad({ filter: /\/postgres\/machine\/schema\.ts$/ }, ({ path, suffix }) => {
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
