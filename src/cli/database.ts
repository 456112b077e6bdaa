import { readFileSync } from "node:fs";

import { messageOf } from "../domain/error.ts";
import type { Migrated } from "../ops/database.ts";
import type { MoveReport } from "../store/move/sides.ts";
import { TEXT, flag } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { UsageError, fail } from "./failure.ts";
import { type Answer, JSON_ARG, answer, countText } from "./print.ts";
import { loadOfflineConfig, settingArgs } from "./settings.ts";
import { YES_ARG, confirm, withProgress } from "./terminal.ts";

const migrate = defineCommand({
  description: "Create the tables on a PostgreSQL server, or migrate them to this version",
  example: "postbackd database migrate --db postgres://postbackd@db.example.com/postbackd",
  notes:
    "Run it once before the first daemon, and before an upgrade; daemons of the previous version continue meanwhile.\n" +
    "A second run changes nothing. A SQLite file does not need it: the daemon creates the tables. Put a URL with a\n" +
    "password into a file, and name the file in POSTBACKD_DB_FILE.",
  args: { ...settingArgs(["db", "config"]), ...JSON_ARG },
  async run(given) {
    const config = loadOfflineConfig(given);
    const { databaseOf } = await import("../ops/database-of.ts");
    const { database } = config;
    const { from, to } = await databaseOf(config).migrate();
    return answer({ database, from, to }, changeText(database, { from, to }));
  },
});

export const databaseCommand = defineCommand({
  description: "Create or upgrade the PostgreSQL schema",
  example: "postbackd database migrate",
  subCommands: { migrate },
});

function changeText(database: string, { from, to }: Migrated): string {
  if (from === null) return `Created the tables in ${database}, version ${to}.`;
  if (from === to) return `The tables in ${database} are of version ${to} already.`;
  return `Migrated the tables in ${database} from version ${from} to ${to}.`;
}

const FLAGS = {
  from: flag(TEXT, "Source: file or postgres:// URL"),
  to: flag(TEXT, "Target: empty PostgreSQL database or new file"),
};

export const moveCommand = defineCommand({
  description: "Move everything from a file to a PostgreSQL server, or back",
  example: "postbackd move --from postbackd.db --to postgres://postbackd@db.example.com/postbackd",
  notes:
    "Stop the daemons first. The move verifies its copy; then postbackd refuses to start on the old database.\n" +
    "Running tasks are queued again, and webhooks in progress are sent again. After an interruption, run the\n" +
    "same command again. A URL with a password is better in a file that only\n" +
    "you can read: --to @FILE. Other users of the machine see what is on a command line.",
  args: { ...FLAGS, ...YES_ARG, ...JSON_ARG },
  async run(given) {
    const { from, to } = given;
    if (from === null) throw new UsageError("--from is missing");
    if (to === null) throw new UsageError("--to is missing");
    await confirm(given, () => LOSS);
    const { moveDatabase } = await import("../store/move/move.ts");
    try {
      const sides = { from: valueOf(from), to: valueOf(to) };
      return toAnswer(await withProgress((tell) => moveDatabase({ ...sides, tell })));
    } catch (error) {
      fail(messageOf(error), error);
    }
  },
});

const LOSS = "after the move, postbackd refuses to start on the old database.";

/** The value itself, or what the file holds that is named after an @. */
function valueOf(text: string): string {
  return text.startsWith("@") ? readFileSync(text.slice(1), "utf8").trim() : text;
}

function toAnswer({ from, to, rows, tasks, wasComplete }: MoveReport): Answer {
  const document = { from, to, rows, tasks, was_complete: wasComplete };
  const done = wasComplete
    ? `Everything was in ${to} already: ${countText(tasks, "task")}.`
    : `Moved ${countText(tasks, "task")}, ${rows.toLocaleString("en")} rows in all, to ${to}, and compared them.`;
  return answer(
    document,
    done,
    `${from} can no longer be started: start postbackd with --db ${to}`,
  );
}
