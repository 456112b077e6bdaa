import { ZodError, prettifyError } from "zod";

import { requirePinnedNode } from "../manifest.ts";
import { exitOnSignals } from "./exit-cleanup.ts";

/**
 * Runs a script on the pinned Node: exit code 0 when `main` settles; 1, with the reason on stderr, when it
 * rejects. SIGINT and SIGTERM end it, and what it started.
 */
export async function runScript(main: () => Promise<void>): Promise<void> {
  requirePinnedNode();
  exitOnSignals();
  try {
    await main();
  } catch (error) {
    process.stderr.write(`${reasonOf(error)}\n`);
    process.exitCode = 1;
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof ZodError) return prettifyError(error).split("\n").slice(0, 4).join("\n");
  const cause = error.cause === undefined ? "" : `\n  because: ${reasonOf(error.cause)}`;
  return `${error.message}${cause}`;
}
