import { renameSync, rmSync, writeFileSync } from "node:fs";

import { messageOf } from "../domain/message-of.ts";
import { CommandFailure } from "./failure.ts";

/**
 * Writes the ready line to a file, readable by its owner only; a process that waits for it sees all of it or nothing.
 * Throws a {@link CommandFailure} when it cannot.
 */
export function writeReadyFile(file: string, line: string): void {
  const unfinished = `${file}.${process.pid}.tmp`;
  try {
    // An earlier process with the same number left it; `wx` follows no link that somebody put there.
    rmSync(unfinished, { force: true });
    writeFileSync(unfinished, line, { flag: "wx", mode: 0o600 });
    renameSync(unfinished, file);
  } catch (error) {
    const what = `the ready file ${file} cannot be written: ${messageOf(error)}`;
    throw new CommandFailure(what, { cause: error });
  }
}
