import assert from "node:assert/strict";

import { loadConfig, problemText } from "../../src/config/config.ts";
import type { Config, ConfigInput } from "../../src/config/config.ts";

/** The working folder of every load. */
export const CWD = "/srv/app";
/** The default configuration file. */
export const DEFAULT_FILE = "/srv/app/postbackd.toml";

/** Input of loadConfig. Absent parts are empty. */
export interface Setup extends Partial<Omit<ConfigInput, "readFile">> {
  /** Text of postbackd.toml in the working folder. */
  readonly toml?: string;
  readonly files?: Readonly<Record<string, string>>;
}

/** Loads from memory, without files and variables of the machine. */
export function load(setup: Setup): ReturnType<typeof loadConfig> {
  const { toml, files = {}, ...input } = setup;
  const all = new Map(Object.entries(files));
  if (toml !== undefined) all.set(DEFAULT_FILE, toml);
  const readFile = (path: string): string | null => all.get(path) ?? null;
  return loadConfig({ flags: {}, env: {}, cwd: CWD, ...input, readFile });
}

/** Returns a valid configuration. */
export function loaded(setup: Setup): Config {
  const verdict = load(setup);
  assert.equal(verdict.kind, "config", JSON.stringify(verdict));
  return verdict.kind === "config" ? verdict.config : assert.fail();
}

/** Returns a line for each problem, source first. */
export function problemsOf(setup: Setup): readonly string[] {
  const verdict = load(setup);
  return verdict.kind === "problems" ? verdict.problems.map(problemText) : [];
}

/** Returns the only problem. */
export function problemOf(setup: Setup): string {
  const problems = problemsOf(setup);
  assert.equal(problems.length, 1, problems.join("\n"));
  return problems[0] ?? "";
}
