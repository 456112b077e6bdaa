import { spawnSync } from "node:child_process";
import type { TestContext } from "node:test";

/** Sets RLIMIT_FSIZE of this process until the test ends. Returns the reason if that fails, or null. */
export function limitFileSize(t: TestContext, bytes: number | "unlimited"): string | null {
  const failure = setLimit(bytes);
  if (bytes !== "unlimited") t.after(() => setLimit("unlimited"));
  return failure;
}

// Only the soft limit: raising it needs no privilege.
function setLimit(bytes: number | "unlimited"): string | null {
  const limit = `--fsize=${bytes}:`;
  const { status, error } = spawnSync("prlimit", ["--pid", String(process.pid), limit]);
  if (error !== undefined) return `prlimit cannot be run: ${error.message}`;
  return status === 0 ? null : "prlimit may not set the limit of this process";
}
