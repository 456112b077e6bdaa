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
import { type Answer, JSON_ARG, answer, countText, waitingText } from "./print.ts";
import { loadOfflineConfig, settingArgs } from "./settings.ts";
import { YES_ARG, ask, canAsk, confirm, withProgress } from "./terminal.ts";
import { actAsOwner, commandUser, isAllowed } from "./user.ts";

const create = defineCommand({
  description: "Copy the database to a file, also while a daemon serves it",
  example: "postbackd backup create /var/lib/postbackd/copy.db",
  notes:
    "The copy holds everything as it was at one moment. It is checked, and on disk, before it gets its name; beside\n" +
    "it FILE.json says what is in it. It holds webhook secrets: every reader of it can sign as you do. A command of root\n" +
    "acts as the user whose the database is: FILE lies where that user may write.",
  args: {
    file: word(PATH, "File to be made"),
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
    return answer(shown, `Made ${file}: ${factsText(document)}.`, `SHA-256 ${sha256}`);
  },
});

const check = defineCommand({
  description: "Check whether a copy is complete, without starting it",
  example: "postbackd backup check /var/lib/postbackd/copy.db",
  notes:
    "Reads all of it, and compares it with FILE.json where that is there. Writes nothing beside it. Ends with 1 when\n" +
    "a daemon could not be started with it.",
  args: { file: word(PATH, "The copy"), ...JSON_ARG },
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
  description: "Put a copy in the place of the database, which no daemon may serve",
  example: "postbackd backup restore /var/lib/postbackd/copy.db --deliveries pause",
  notes:
    "The copy is checked first and stays as it is. The old database keeps its content under a name with the time.\n" +
    "Work after the backup is repeated: tasks that ran since run again, webhooks that were sent since are\n" +
    "sent again. With --deliveries pause none goes out until 'postbackd admin delivery resume'; with resume they go\n" +
    "out at the start. Keys and secrets are those of the copy: what was revoked since is valid again. A command of\n" +
    "root acts as the user whose the database is, who must be able to read the copy.",
  args: {
    file: word(PATH, "The copy"),
    deliveries: flag(oneOf(DELIVERIES), "Webhooks that wait in it: paused until resumed, or sent"),
    ...YES_ARG,
    ...settingArgs(["db", "config"]),
    ...JSON_ARG,
  },
  async run(given) {
    const { deliveries } = given;
    if (deliveries === null && !canAsk()) {
      throw new UsageError(
        "--deliveries is missing: pause keeps the webhooks that wait in the copy until 'postbackd admin delivery resume', " +
          "resume sends them at the start",
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
      const what = `${actsAs} reads the copy, not root, and may not read ${copy}`;
      const remedy = `install -m 0600 -o ${process.geteuid?.()} ${copy}* ${folder}`;
      fail(`${what}; give it to them with its .json, and name that: ${remedy}`);
    }
    const restored = await orFail((tell) =>
      database.restore({
        tell,
        copy,
        async decide(sound) {
          await confirmReplacement(given, { copy: sound, database: config.database });
          if (deliveries !== null) return deliveries;
          const question = `${waitingText(sound.openDeliveries)} in the copy. Pause or send them?`;
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
  description: "Make, check and restore copies of a database file",
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

/** Without a database nothing is replaced, and no question is asked. */
async function confirmReplacement(
  given: Given<typeof YES_ARG>,
  { copy, database }: { readonly copy: SoundCopy; readonly database: string },
): Promise<void> {
  const old = statSync(database, { throwIfNoEntry: false });
  if (old === undefined) return;
  const { document } = copy;
  const since = document === null ? "since the copy" : `since ${timeText(document.createdAt)}`;
  await confirm(
    given,
    () =>
      `this puts ${factsText(copy)} in the place of ${database} (${old.size.toLocaleString("en")} bytes): ` +
      `what happened ${since} is not in it, and stays in the old file alone.`,
  );
}

function verdictAnswer(file: string, verdict: CopyVerdict): Answer {
  if (verdict.kind === "refused") {
    const { reason } = verdict;
    const document = { file, is_whole: false, reason };
    return { ...answer(document, `Not whole: ${reason}.`), exit: EXIT.failed };
  }
  const { copy } = verdict;
  const { document, sha256 } = copy;
  const created_at = document === null ? null : timeText(document.createdAt);
  const compared =
    document === null
      ? `${file}.json, to compare it with, does not exist.`
      : `Made ${timeText(document.createdAt)} by postbackd ${document.program}, and the same since.`;
  const shown = { file, is_whole: true, ...factsDocument(copy), sha256, created_at };
  return answer(shown, `${file} is whole: ${factsText(copy)}.`, compared, `SHA-256 ${sha256}`);
}

function restoredAnswer(database: string, restored: Restored): Answer {
  const { facts, deliveries, setAside } = restored;
  const next =
    deliveries === "pause"
      ? "None goes out until 'postbackd admin delivery resume'."
      : "They go out at the next start.";
  return answer(
    { database, deliveries, set_aside: setAside, ...factsDocument(facts) },
    `Restored ${database}: ${factsText(facts)}.`,
    ...(setAside === null ? [] : [`What was there before is ${setAside}.`]),
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
