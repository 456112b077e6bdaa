import { existsSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";

import { systemClock } from "../domain/clock/clock.ts";
import { timeText } from "../domain/clock/time.ts";
import { codeOf, messageOf } from "../domain/error.ts";
import type { TellProgress } from "../domain/log.ts";
import { oneOf } from "../domain/rule.ts";
import type {
  CopyFacts,
  CopyVerdict,
  Restored,
  RestoredDeliveries,
  SoundCopy,
} from "../ops/backup.ts";
import { flag, PATH, toggle, word, type Given } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { EXIT, faultText, UsageError, fail } from "./failure.ts";
import { type Answer, JSON_ARG, answer, countText, printError, waitingText } from "./print.ts";
import { loadOfflineConfig, settingArgs } from "./settings.ts";
import { YES_ARG, ask, canAsk, confirm, withProgress } from "./terminal.ts";
import { actAsOwner, commandUser, isAllowed } from "./user.ts";

const create = defineCommand({
  description: "Copy the database to a file, even while a daemon serves it",
  example: "postbackd backup create /var/lib/postbackd/copy.db",
  notes:
    "The backup has the state of one moment. postbackd checks it, then renames it to FILE, and writes its facts to\n" +
    "FILE.json. It contains the webhook secrets: keep it private. If root runs this, the owner of the database writes\n" +
    "FILE, so choose a folder where the owner may write.",
  args: {
    file: word(PATH, "File to create"),
    replace: toggle("Overwrite FILE after the backup is verified"),
    ...settingArgs(["db", "config"]),
    ...JSON_ARG,
  },
  async run(given) {
    const { giveWay } = await import("../ops/backup.ts");
    giveWay();
    const file = resolve(given.file);
    const config = loadOfflineConfig(given);
    const { databaseOf } = await import("../ops/database-of.ts");
    const now = systemClock.now();
    const order = { file, mayReplace: given.replace, now, isServedHere: false };
    const database = databaseOf(config);
    const folder = dirname(file);
    const isFolder = existsSync(folder);
    const actsAs = actAsOwner(database, config);
    if (actsAs !== null && isFolder && !isAllowed("write", folder)) {
      const what = `${actsAs} makes the copy, not root, and may not write to ${folder}`;
      const instead = join(dirname(config.database), basename(file));
      fail(`${what}: name a file in a folder of theirs, such as ${instead}`);
    }
    const document = await orFail((tell) => {
      const run = database.startBackup(order, tell);
      const stop = (): void => run.stop();
      for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, stop);
      return run.ended;
    });
    const { sha256 } = document;
    const shown = { file, ...factsDocument(document), sha256 };
    return answer(shown, `Created ${file}: ${factsText(document)}.`, `SHA-256 ${sha256}`);
  },
});

const check = defineCommand({
  description: "Check whether a backup is complete, without starting it",
  example: "postbackd backup check /var/lib/postbackd/copy.db",
  notes:
    "Reads the entire backup, and compares it with FILE.json if that exists. Writes nothing. Exit code 1: the\n" +
    "backup is not usable.",
  args: { file: word(PATH, "The backup"), ...JSON_ARG },
  async run(given) {
    const file = resolve(given.file);
    const { giveWay, judgeCopy } = await import("../ops/backup.ts");
    giveWay();
    const verdict = await withProgress((tell) => judgeCopy(file, tell));
    return verdictAnswer(file, verdict);
  },
});

const DELIVERIES = ["pause", "resume"] as const satisfies readonly RestoredDeliveries[];

const restore = defineCommand({
  description: "Replace the database with a backup; stop the daemon first",
  example: "postbackd backup restore /var/lib/postbackd/copy.db --deliveries pause",
  notes:
    "postbackd checks FILE first, and does not change it. The old database stays under a name with the time. Work\n" +
    "since the backup is repeated: tasks run again, and webhooks are sent again. With --deliveries pause no webhook\n" +
    "is sent until 'postbackd admin delivery resume'; with resume they are sent at the start. Keys that were revoked\n" +
    "since the backup are valid again. Tasks that were posted since are lost. If root runs this, the owner of the\n" +
    "database must be able to read FILE.",
  args: {
    file: word(PATH, "The backup"),
    deliveries: flag(
      oneOf(DELIVERIES),
      "Waiting webhooks of the backup: pause until resumed, or send",
    ),
    ...YES_ARG,
    ...settingArgs(["db", "config"]),
    ...JSON_ARG,
  },
  async run(given) {
    const { deliveries } = given;
    if (deliveries === null && !canAsk()) {
      throw new UsageError(
        "--deliveries is missing: pause keeps the waiting webhooks of the backup until 'postbackd admin delivery resume', " +
          "resume sends them at the start of the daemon",
      );
    }
    const config = loadOfflineConfig(given);
    const { databaseOf } = await import("../ops/database-of.ts");
    const copy = resolve(given.file);
    const database = databaseOf(config);
    const isThere = existsSync(copy);
    const actsAs = actAsOwner(database, config);
    if (actsAs !== null && isThere && !isAllowed("read", copy)) {
      const folder = dirname(config.database);
      const what = `${actsAs} reads the backup instead of root, and may not read ${copy}`;
      const remedy = `install -m 0600 -o ${process.geteuid?.()} ${copy}* ${folder}`;
      fail(`${what}; give that user a copy and its .json, and name that: ${remedy}`);
    }
    const restored = await orFail((tell) =>
      database.restore({
        tell,
        copy,
        async decide(sound) {
          if (sound.document === null) printError(uncheckedText(copy));
          await confirmReplacement(given, { copy: sound, database: config.database });
          if (deliveries !== null) return deliveries;
          const question = `${waitingText(sound.openDeliveries)} in the backup. Pause or send them?`;
          return ask(
            `${question} [${DELIVERIES.join("/")}]`,
            (answer) => DELIVERIES.find((each) => each === answer) ?? null,
          );
        },
        now: systemClock.now(),
        user: commandUser(),
      }),
    );
    return restoredAnswer(config.database, restored);
  },
});

export const backupCommand = defineCommand({
  description: "Create, check and restore backups of a SQLite database",
  example: "postbackd backup create /var/lib/postbackd/copy.db",
  subCommands: { create, check, restore },
});

function orFail<Value>(step: (tell: TellProgress) => Promise<Value>): Promise<Value> {
  return withProgress(step).catch((error: unknown) => {
    // An error of the system or of SQLite names no remedy.
    const text = codeOf(error) === null ? messageOf(error) : faultText(error, process.env);
    return fail(text, error);
  });
}

function uncheckedText(copy: string): string {
  return (
    `${copy}.json does not exist, so no checksum is compared: only SQLite's own checks ran, ` +
    "and a changed byte inside a text stays unnoticed"
  );
}

/** Without a database nothing is replaced, and no question is asked. */
async function confirmReplacement(
  given: Given<typeof YES_ARG> & { readonly deliveries: RestoredDeliveries | null },
  { copy, database }: { readonly copy: SoundCopy; readonly database: string },
): Promise<void> {
  const old = statSync(database, { throwIfNoEntry: false });
  if (old === undefined) return;
  const { document } = copy;
  const since = document === null ? "since the backup" : `since ${timeText(document.createdAt)}`;
  const next = given.deliveries === null ? " The next question is about the webhooks." : "";
  await confirm(
    given,
    () =>
      `this replaces ${database} (${old.size.toLocaleString("en")} bytes) with ${factsText(copy)}: ` +
      `all changes ${since} are only in the old file, which is kept under a new name.${next}`,
  );
}

function verdictAnswer(file: string, verdict: CopyVerdict): Answer {
  if (verdict.kind === "refused") {
    const { reason } = verdict;
    const document = { file, is_whole: false, reason };
    return { ...answer(document, `Not a complete backup: ${reason}.`), exit: EXIT.failed };
  }
  const { copy } = verdict;
  const { document, sha256 } = copy;
  const created_at = document === null ? null : timeText(document.createdAt);
  const compared =
    document === null
      ? `${file}.json does not exist, so the backup was not compared with it.`
      : `Created ${timeText(document.createdAt)} by postbackd ${document.program}, and unchanged since.`;
  const shown = { file, is_whole: true, ...factsDocument(copy), sha256, created_at };
  return answer(shown, `${file} is complete: ${factsText(copy)}.`, compared, `SHA-256 ${sha256}`);
}

function restoredAnswer(database: string, restored: Restored): Answer {
  const { facts, deliveries, setAside } = restored;
  const next =
    deliveries === "pause"
      ? "They are sent after 'postbackd admin delivery resume'."
      : "They are sent at the next start.";
  return answer(
    { database, deliveries, set_aside: setAside, ...factsDocument(facts) },
    `Restored ${database}: ${factsText(facts)}.`,
    ...(setAside.length === 0 ? [] : [`Old files are kept as ${setAside.join(", ")}.`]),
    `${waitingText(facts.openDeliveries)}. ${next}`,
  );
}

function factsDocument(facts: CopyFacts): Readonly<Record<string, number>> {
  const { bytes, schemaVersion: schema_version, tasks, deliveries, openDeliveries } = facts;
  return { bytes, schema_version, tasks, deliveries, open_deliveries: openDeliveries };
}

function factsText({ bytes, tasks }: CopyFacts): string {
  return `${countText(tasks, "task")}, ${bytes.toLocaleString("en")} bytes`;
}
