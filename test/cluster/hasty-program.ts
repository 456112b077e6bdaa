import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";

import type { Plugin } from "esbuild";

import type { Program } from "../../scripts/kit/daemon.ts";
import { ROOT } from "../../scripts/manifest.ts";
import { newChangedProgram } from "./changed-program.ts";

/** The waits that lie between what happens and what the operator is told, by file. */
const WAITS: Readonly<Record<string, readonly string[]>> = {
  "ops/conditions.ts": [
    ...["LOOK_MS", "OVER_AFTER_MS", "HANDED_OVER_MS"],
    ...["WORKERS_HEARD_MS", "MISSING_MS"],
  ],
  "domain/stats/condition.ts": ["WAIT_MS_MIN"],
};

// It is over after ten seconds in place of five minutes: still longer than what was read of the database is kept.
const TIMES = 30;

/**
 * A copy of the program that tells of a condition, and of its end, thirty times as soon. All else takes its time: the
 * roles change hands as they do in production.
 */
export function newHastyProgram(t: TestContext): Promise<Program> {
  const name = "a program that tells of conditions sooner";
  return newChangedProgram(t, { name, change: withShortWaits() });
}

function withShortWaits(): Plugin {
  const texts = new Map(
    Object.entries(WAITS).map(([file, names]) => {
      const path = join(ROOT, "src", file);
      return [path, names.reduce(shortened, readFileSync(path, "utf8"))];
    }),
  );
  return {
    name: "short-waits",
    setup(setup) {
      setup.onLoad({ filter: /\/conditions?\.ts$/ }, ({ path }) => {
        const contents = texts.get(path);
        return contents === undefined ? undefined : { contents, loader: "ts" };
      });
    },
  };
}

function shortened(text: string, name: string): string {
  const line = new RegExp(`^const ${name} = (.+);$`, "m");
  if (!line.test(text)) throw new Error(`there is no wait ${name} to shorten`);
  return text.replace(line, `const ${name} = ($1) / ${TIMES};`);
}
