import { ChildProcess, type StdioOptions } from "node:child_process";

import type { CommandLine } from "../domain/task/run.ts";
import { spawnInto } from "../node-internals.ts";
import { type Environment, toEnvPairs } from "./program.ts";

/** How a program ended, or why it could not be started. */
export type ProgramEnd =
  | { readonly kind: "exited"; readonly code: number | null }
  | { readonly kind: "not_started"; readonly errorCode: string };

/**
 * Runs a program of the system to its end, with this environment alone. What it prints is dropped, or goes where this
 * process prints its own errors. Never rejects.
 */
export function runToExit(
  command: CommandLine,
  env: Environment,
  output: "dropped" | "shown" = "dropped",
): Promise<ProgramEnd> {
  const child = new ChildProcess();
  return new Promise((resolve) => {
    child.once("error", () => resolve({ kind: "not_started", errorCode: "ENOENT" }));
    child.once("exit", (code) => resolve({ kind: "exited", code }));
    const stdio: StdioOptions = output === "dropped" ? "ignore" : ["ignore", 2, 2];
    const errorCode = spawnInto(child, { cwd: "/", envPairs: toEnvPairs(env), stdio, command });
    if (errorCode !== null) resolve({ kind: "not_started", errorCode });
  });
}
