import { createWriteStream, openSync, rmSync } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

import { codeOf, messageOf } from "../domain/message-of.ts";
import type { TellProgress } from "../domain/work-progress.ts";
import { accountLines, LineCounts } from "./account-lines.ts";
import { accountNamed, defineAdminCommand, LOGIN_ARG } from "./admin-command.ts";
import { tasksText } from "./admin-steps.ts";
import { flag, textOf } from "./arguments.ts";
import { CommandFailure } from "./failure.ts";
import { withProgress } from "./terminal.ts";
import { byCommand } from "./user.ts";

const NAME = "postbackd admin account";

export const exportCommand = defineAdminCommand({
  description: "Write everything of an account as JSON Lines, without its secrets",
  example: `${NAME} export alice --output alice.jsonl`,
  notes:
    "One object on each line, whose `kind` says what it is: the account, its keys, its request for access, pauses,\n" +
    "orders, tasks with input, result, webhooks and their attempts, and its entries of the audit. The last line is\n" +
    "of kind `end`, with how many there are of each: a file without it is not whole. Its `truncated` names kinds that\n" +
    "may have more. Each task is as it was at one moment, and tasks that are posted meanwhile are left out. Disable the\n" +
    "account first for one state of all.",
  args: {
    ...LOGIN_ARG,
    output: flag(textOf("FILE"), "File to be made, for this user only; stdout unless given"),
  },
  async run({ login, output: file }, { store, actsAs }) {
    const account = await accountNamed(login, store);
    const counts = new LineCounts();
    const audit = byCommand("account.exported", login, { file });
    async function* auditedLines(tell: TellProgress): AsyncGenerator<string> {
      // Before anything is shown: an export that is broken off has shown something, too.
      await store.noteAudit(audit);
      yield* accountLines(account, { store, counts, tell });
    }
    const write = (tell: TellProgress): Promise<void> =>
      file === null
        ? writeToStdout(auditedLines(tell))
        : writeToFile(auditedLines(tell), openNew(file, actsAs));
    // On a terminal that shows the lines themselves a line of progress would stand between them.
    const isShown = file === null && process.stdout.isTTY;
    await (isShown ? write(() => {}) : withProgress(write));
    const { task = 0, ...others } = counts.byKind;
    const rest = Object.values(others).reduce((sum, count) => sum + count, 0);
    const { truncated } = counts;
    const cut = truncated.map(
      (kind) => `There may be more of kind ${kind}: the oldest are left out.`,
    );
    const answer = {
      document: { login, file, lines: counts.byKind, truncated },
      lines: [`Exported ${login} to ${file}: ${tasksText(task)}, and ${rest} other lines.`, ...cut],
    };
    // stdout holds the lines, and nothing else.
    return file === null ? { ...answer, exact: "" } : answer;
  },
});

interface OpenFile {
  readonly path: string;
  readonly descriptor: number;
}

function openNew(path: string, actsAs: string | null): OpenFile {
  try {
    return { path, descriptor: openSync(path, "wx", 0o600) };
  } catch (error) {
    const hint =
      actsAs === null ? "" : `; ${actsAs} would write it, not root: use '> FILE' in its place`;
    const reason =
      codeOf(error) === "EEXIST"
        ? "is there already: name another file"
        : `cannot be made: ${messageOf(error)}${hint}`;
    throw new CommandFailure(`${path} ${reason}`, { cause: error });
  }
}

async function writeToFile(
  lines: AsyncIterable<string>,
  { path, descriptor }: OpenFile,
): Promise<void> {
  try {
    await writeLines(lines, createWriteStream(path, { fd: descriptor, flush: true }));
  } catch (error) {
    // Half an export must not be taken for a whole one.
    rmSync(path, { force: true });
    throw error;
  }
}

async function writeToStdout(lines: AsyncIterable<string>): Promise<void> {
  await writeLines(lines, process.stdout, { end: false });
}

async function writeLines(
  lines: AsyncIterable<string>,
  to: NodeJS.WritableStream,
  options: { readonly end?: boolean } = {},
): Promise<void> {
  const stop = new AbortController();
  const abort = (): void => stop.abort();
  for (const signal of SIGNALS) process.once(signal, abort);
  try {
    // One line at a time: each may be as long as the largest input and result together.
    const from = Readable.from(lines, { highWaterMark: 1 });
    await pipeline(from, to, { ...options, signal: stop.signal });
  } catch (error) {
    // A full disk, a reader that has gone away, a signal; other errors are not of writing.
    if (codeOf(error) === undefined) throw error;
    throw new CommandFailure(`the export was broken off: ${messageOf(error)}`, { cause: error });
  } finally {
    for (const signal of SIGNALS) process.off(signal, abort);
  }
}

const SIGNALS = ["SIGINT", "SIGTERM"] as const;
