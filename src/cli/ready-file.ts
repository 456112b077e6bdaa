import { renameSync, rmSync, writeFileSync } from "node:fs";

import { CommandFailure } from "./failure.ts";

/**
 * Writes the ready line to a file that whoever waits sees whole or not at all, readable by its owner only.
 * Throws a {@link CommandFailure} when it cannot.
 */
export function writeReadyFile(file: string, line: string): void {
  const unfinished = `${file}.${process.pid}.tmp`;
  try {
    // What an earlier process of the same number left; `wx` follows no link that somebody put there.
    rmSync(unfinished, { force: true });
    writeFileSync(unfinished, line, { flag: "wx", mode: 0o600 });
    renameSync(unfinished, file);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new CommandFailure(`the ready file ${file} cannot be written: ${reason}`, {
      cause: error,
    });
  }
}

/** Takes the file away when the daemon stops: whoever waits for the next one must not find this one's. */
export function removeReadyFile(file: string): void {
  rmSync(file, { force: true });
}
