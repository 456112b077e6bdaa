import type { ChildProcess, StdioOptions } from "node:child_process";
import { getSystemErrorName } from "node:util";

import { codeOf } from "../domain/error.ts";
import type { CommandLine } from "../domain/task/run.ts";

export interface SpawnOptions {
  readonly command: CommandLine;
  readonly cwd: string;
  /** The whole environment, `NAME=value` each. */
  readonly envPairs: readonly string[];
  readonly stdio: StdioOptions;
}

/**
 * The core of `child_process.spawn`, called directly: it takes the environment as it is, and answers an error at once
 * instead of by an event. The process leads a session of its own. Returns the system's name for the error, null when the
 * process runs.
 */
export function spawnInto(child: ChildProcess, options: SpawnOptions): string | null {
  if (!("spawn" in child) || typeof child.spawn !== "function") {
    throw new TypeError("This version of Node.js has no ChildProcess.prototype.spawn.");
  }
  const { command, cwd, envPairs, stdio } = options;
  const [file] = command;
  try {
    const errno: unknown = Reflect.apply(child.spawn, child, [
      { file, args: [...command], cwd, envPairs, stdio, detached: true },
    ]);
    return typeof errno === "number" && errno !== 0 ? getSystemErrorName(errno) : null;
  } catch (error) {
    // Some errors are returned, others thrown (ENOTDIR, E2BIG, …); here both mean the same.
    return codeOf(error) ?? "UNKNOWN";
  }
}
