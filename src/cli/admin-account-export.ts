import { createWriteStream, openSync, rmSync } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

import { accountLines, LineCounts } from "../admin/account-lines.ts";
import { codeOf, messageOf } from "../domain/message-of.ts";
import type { TellProgress } from "../domain/work-progress.ts";
import { accountNamed, defineAdminCommand, LOGIN_ARG } from "./admin-command.ts";
import { flag, textOf } from "./arguments.ts";
import { CommandFailure } from "./failure.ts";
import { jsonLine, countText } from "./print.ts";
import { withProgress } from "./terminal.ts";

const NAME = "postbackd admin account";

export const exportCommand = defineAdminCommand({
  description: "Write everything of an account as JSON Lines, without its secrets",
  example: `${NAME} export alice --output alice.jsonl`,
  notes:
    "One object on each line with its `kind`: the account, its keys, its access request, pauses, orders, tasks with\n" +
    "input, result, webhooks and their attempts, and its entries of the audit. The last line is of kind `end`, with\n" +
    "the number of lines of each kind: a file without it is incomplete. Its `truncated` names kinds of which the\n" +
    "oldest may be missing. Tasks that are posted during the export are left out. For one consistent state, disable the\n" +
    "account first.",
  args: {
    ...LOGIN_ARG,
    output: flag(textOf("FILE"), "File to make, for this user only; stdout unless given"),
  },
  async run({ login, output: file }, { store, actsAs, audit }) {
    const account = await accountNamed(login, store);
    const counts = new LineCounts();
    async function* auditedLines(tell: TellProgress): AsyncGenerator<string> {
      // Before the first line: an export that fails later has shown something.
      await store.noteAudit(audit("account.exported", login, { file }));
      const lines = accountLines(account, { store, counts, tell });
      for await (const json of lines) yield jsonLine(json);
    }
    const write = (tell: TellProgress): Promise<void> =>
      file === null
        ? writeLines(auditedLines(tell), process.stdout)
        : writeToFile(auditedLines(tell), file, actsAs);
    // A terminal that shows the lines has no room for a line of progress.
    const isShown = file === null && process.stdout.isTTY;
    await (isShown ? write(() => {}) : withProgress(write));
    const { byKind, truncated } = counts;
    const { task = 0, ...others } = byKind;
    const rest = Object.values(others).reduce((sum, count) => sum + count, 0);
    return {
      document: { login, file, lines: byKind, truncated },
      lines: [
        `Exported ${login} to ${file}: ${countText(task, "task")}, and ${rest} other lines.`,
        ...truncated.map((kind) => `There may be more of kind ${kind}: the oldest are left out.`),
      ],
      // stdout has the lines alone.
      ...(file === null ? { exact: "" } : {}),
    };
  },
});

async function writeToFile(
  lines: AsyncIterable<string>,
  path: string,
  actsAs: string | null,
): Promise<void> {
  const fd = openNew(path, actsAs);
  try {
    await writeLines(lines, createWriteStream(path, { fd, flush: true }));
  } catch (error) {
    // An incomplete export must not remain.
    rmSync(path, { force: true });
    throw error;
  }
}

/** Makes a file and returns its descriptor. */
function openNew(path: string, actsAs: string | null): number {
  try {
    return openSync(path, "wx", 0o600);
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

async function writeLines(lines: AsyncIterable<string>, to: NodeJS.WritableStream): Promise<void> {
  const stop = new AbortController();
  const abort = (): void => stop.abort();
  for (const signal of SIGNALS) process.once(signal, abort);
  try {
    // One line at a time: each may be as long as the largest input and result.
    const from = Readable.from(lines, { highWaterMark: 1 });
    await pipeline(from, to, { end: to !== process.stdout, signal: stop.signal });
  } catch (error) {
    // Errors of writing have a code: a full disk, a closed pipe, a signal.
    if (codeOf(error) === undefined) throw error;
    throw new CommandFailure(`the export was broken off: ${messageOf(error)}`, { cause: error });
  } finally {
    for (const signal of SIGNALS) process.off(signal, abort);
  }
}

const SIGNALS = ["SIGINT", "SIGTERM"] as const;
