import type { Migrated } from "../daemon/database.ts";
import { defineCommand } from "./command.ts";
import { CommandFailure } from "./failure.ts";
import { JSON_ARG, printAnswer, type Answer } from "./print.ts";
import { loadOfflineConfig, settingArgs } from "./settings.ts";

export const databaseMigrateCommand = defineCommand({
  description: "Make the tables on a server, or bring them to this program's version",
  example: "postbackd database migrate --db postgres://postbackd@db.example.com/postbackd",
  notes:
    "Run it once before the first daemon, and before the daemons of a newer version; those of the version\n" +
    "before go on meanwhile. A file needs no such step: its daemon migrates it at the start. Done twice, it\n" +
    "changes nothing. The URL's password is better in a file that POSTBACKD_DB_FILE names.",
  args: { ...settingArgs(["db", "config"]), ...JSON_ARG },
  async run(given) {
    const config = loadOfflineConfig(given);
    const { DatabaseError, databaseOf } = await import("../daemon/store.ts");
    try {
      printAnswer(given, toAnswer(config.database, await databaseOf(config).migrate()));
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error;
      throw new CommandFailure(error.message, { cause: error });
    }
  },
});

function toAnswer(database: string, { from, to }: Migrated): Answer {
  return { document: { database, from, to }, lines: [changeText(database, { from, to })] };
}

function changeText(database: string, { from, to }: Migrated): string {
  if (from === null) return `Made the tables in ${database}, version ${to}.`;
  if (from === to) return `The tables in ${database} are of version ${to} already.`;
  return `Brought the tables in ${database} from version ${from} to ${to}.`;
}
