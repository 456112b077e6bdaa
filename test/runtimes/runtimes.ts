import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import type { TestContext } from "node:test";

import { NpmPackages } from "../../scripts/kit/npm-packages.ts";

/**
 * Runtimes, a compiler, test runners and web frameworks of npm, installed on request: 670 MB, in half a
 * minute. The runtimes are packages for x64 Linux without install scripts, so that nothing comes from elsewhere than
 * the registry.
 */
const RUNTIMES = new NpmPackages(import.meta.dirname, { before: "2026-11-28" });

const HOW_TO_GET_THEM = "not installed: POSTBACKD_TEST_PEERS=required has npm install them";

/** What runs the same program in another runtime: the arguments and variables keep it from asking the network. */
export interface Runtime {
  readonly name: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

type Setup = Partial<Omit<Runtime, "name" | "program">> & {
  /** A file of the packages; null for the Node that runs the tests. */
  readonly file: string | null;
};

const SETUPS: Readonly<Record<string, Setup>> = {
  "Node 20": { file: "node20/bin/node" },
  "Node 22": { file: "node22/bin/node" },
  "Node 24": { file: null },
  Deno: {
    file: "deno/deno",
    args: ["run", "--allow-net=127.0.0.1", "--allow-read", "--no-remote", "--no-lock"],
    env: { DENO_NO_UPDATE_CHECK: "1" },
  },
  Bun: { file: "bun/bin/bun", args: ["--no-install"], env: { DO_NOT_TRACK: "1" } },
};

export const RUNTIME_NAMES = Object.keys(SETUPS);

/** The runtime of this name; null, and the test is skipped, where it is not installed (see {@link findRuntime}). */
export function findProgram(t: TestContext, name: string): Runtime | null {
  const { file, args = [], env = {} } = SETUPS[name] ?? assert.fail(`no runtime ${name}`);
  const program = file === null ? process.execPath : findRuntime(t, file);
  if (program === null) return null;
  return { name, program, args, env };
}

/** A row of the matrix in docs/guides/js-client.md: where it ran, and what became of it. */
export function tellRun(t: TestContext, { name, program }: Runtime, told: string): void {
  const { stdout } = spawnSync(program, ["--version"], { encoding: "utf8" });
  const version = /\d[\d.]+/.exec(stdout)?.[0] ?? "";
  t.diagnostic(`${name.padEnd(12)}${version.padEnd(16)}${told.trim()}`);
}

/**
 * The path of a file of these packages. Where they are not installed they are, if the environment promises them with
 * POSTBACKD_TEST_PEERS=required; else the test is skipped, and null is answered.
 */
export function findRuntime(t: TestContext, file: string): string | null {
  if (process.platform !== "linux" || process.arch !== "x64") {
    t.skip(`only for x64 Linux: ${file}`);
    return null;
  }
  if (!RUNTIMES.isInstalled) {
    if (process.env["POSTBACKD_TEST_PEERS"] !== "required") {
      t.skip(HOW_TO_GET_THEM);
      return null;
    }
    RUNTIMES.install();
  }
  return join(RUNTIMES.folder, "node_modules", file);
}
