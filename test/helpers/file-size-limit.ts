import { spawnSync } from "node:child_process";
import type { TestContext } from "node:test";

/**
 * Sets how large a file this process may write (RLIMIT_FSIZE): beyond it write() ends with EFBIG, since Node ignores
 * the signal. Lifted after the test. Answers why it cannot be set here, or null.
 */
export function limitFileSize(t: TestContext, bytes: number | "unlimited"): string | null {
  const failure = setLimit(bytes);
  if (bytes !== "unlimited") t.after(() => setLimit("unlimited"));
  return failure;
}

// Only the soft limit is lowered: to raise it again needs no privilege.
function setLimit(bytes: number | "unlimited"): string | null {
  const limit = `--fsize=${bytes}:`;
  const { status, error } = spawnSync("prlimit", ["--pid", String(process.pid), limit]);
  if (error !== undefined) return `prlimit cannot be run: ${error.message}`;
  return status === 0 ? null : "prlimit may not set the limit of this process";
}
