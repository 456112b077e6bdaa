import { statSync } from "node:fs";

import type { Logger } from "../domain/log.ts";
import { endOrphans } from "../run/orphan.ts";

/**
 * The name under which the commands of a file's daemon run: the file itself, whatever path leads to it. While a daemon
 * lives it holds the file open, so no other file of the machine has the same numbers, and it holds the instance lock,
 * so no other daemon has the same file.
 */
export function fileOwner(file: string): string {
  const { dev, ino } = statSync(file, { bigint: true });
  return `database-${dev}-${ino}`;
}

/**
 * Ends the commands that a killed daemon left running, and logs how many processes those were. To be called before
 * anything is run, because their tasks are run again.
 */
export async function endOrphanedCommands(owner: string, log: Logger): Promise<void> {
  const { ended, left } = await endOrphans({ owner });
  if (ended > 0) {
    log.warn(
      { processes: ended },
      "ended processes of commands that an earlier daemon left running when it was killed",
    );
  }
  if (left > 0) {
    log.warn(
      { processes: left },
      "processes of commands that an earlier daemon left running do not end, although they were killed",
    );
  }
}
