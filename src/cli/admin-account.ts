import { createWriteStream, openSync, rmSync } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

import { LineCounts, accountLines } from "../admin/account-lines.ts";
import {
  accountDocument,
  createAccount,
  disableAccount,
  enableAccount,
  findAccountWithWork,
  limitAccount,
  newKeyDocument,
} from "../admin/account.ts";
import { SETTINGS } from "../config/setting.ts";
import { NEW_LOGIN, heldText, stoppedText } from "../domain/account/account.ts";
import type { MintedAccount } from "../domain/account/key.ts";
import {
  DEFAULT_LIMIT,
  type OwnLimits,
  limitsOf,
  openTasksOf,
  ownLimit,
} from "../domain/account/quota.ts";
import { codeOf, messageOf } from "../domain/error.ts";
import type { TellProgress } from "../domain/log.ts";
import {
  LOGIN_ARG,
  accountNamed,
  bySteps,
  defineAdminCommand,
  giveRoomBack,
  ofAccount,
} from "./admin-command.ts";
import { type Given, flag, flag as valueFlag, textOf, toggle, word } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { fail } from "./failure.ts";
import {
  type Answer,
  answer,
  countText,
  jsonLine,
  listAnswer,
  newSecretLines,
  tableLines,
} from "./print.ts";
import { canAsk, confirm, withProgress } from "./terminal.ts";

const NAME = "postbackd admin account";

const create = defineAdminCommand({
  description: "Create an account with its first API key and its webhook secret",
  example: `${NAME} create alice`,
  args: { login: word(NEW_LOGIN, LOGIN_ARG.login.description) },
  mayCreate: true,
  async run({ login }, parts) {
    const another = `'postbackd admin key create ${login}' creates another key for it`;
    const minted = await createAccount(login, parts);
    return newAccountAnswer(minted ?? fail(`the login ${login} exists already; ${another}`));
  },
});

export function newAccountAnswer({ account, first }: MintedAccount): Answer {
  const shown = accountDocument({ ...account, disabledAt: null });
  const key = newKeyDocument(first);
  const { login, webhookSecret: webhook_secret } = account;
  const facts = { login, key: key.key, key_id: key.key_id, webhook_secret };
  return answer({ ...shown, webhook_secret, key }, ...newSecretLines(facts, "key"));
}

const list = defineAdminCommand({
  description: "List all accounts",
  example: `${NAME} list --json`,
  args: {},
  async run(_given, { store }) {
    const accounts = [];
    for (const account of await store.listAccounts()) {
      const isDisabled = account.disabledAt !== null;
      const held = isDisabled ? (await findAccountWithWork(account.login, store))?.held : null;
      accounts.push({ ...accountDocument(account), held: held ?? null });
    }
    const rows = accounts.map(({ held, ...shown }) => ({ ...shown, held: held && heldText(held) }));
    const none = `No account exists yet; create one with '${NAME} create LOGIN'.`;
    return listAnswer({ accounts }, rows, { none });
  },
});

const disable = defineAdminCommand({
  description: "Refuse an account's requests, and suspend its tasks and webhooks",
  example: `${NAME} disable alice`,
  notes: "Running tasks are stopped and queued again; the stopped run does not count.",
  args: LOGIN_ARG,
  async run({ login }, parts) {
    await disableAccount(login, parts);
    const { held, ...account } = ofAccount(login, await findAccountWithWork(login, parts.store));
    const document = accountDocument(account);
    const texts = held === null ? [] : [heldText(held), stoppedText(held) ?? []].flat();
    return answer(
      { ...document, held },
      `Account ${login} is disabled since ${document.disabled_at}.`,
      `held: ${texts.join("; ")}`,
      `'${NAME} enable ${login}' resumes.`,
    );
  },
});

const enable = defineAdminCommand({
  description: "Accept an account's requests again, and resume its tasks and webhooks",
  example: `${NAME} enable alice`,
  args: LOGIN_ARG,
  async run({ login }, parts) {
    const { store } = parts;
    const { held: resumed } = ofAccount(login, await findAccountWithWork(login, store));
    await enableAccount(login, parts);
    const account = await accountNamed(login, store);
    return answer(
      { ...accountDocument(account), resumed },
      `Account ${login} is enabled.`,
      ...(resumed === null ? [] : [`resumed: ${heldText(resumed)}`]),
    );
  },
});

const erase = defineAdminCommand({
  description: "Erase a disabled account and everything that belongs to it, permanently",
  example: `${NAME} erase alice --yes`,
  notes:
    "Its tasks with inputs, results and webhooks, its keys, sessions and statistics, and its access request. The\n" +
    "numbers of all accounts together keep what it did. Safe to repeat after an interruption. Backups are not\n" +
    "changed. On a server it first waits for current writes of all daemons, for at most 10 seconds.",
  args: { ...LOGIN_ARG, yes: toggle("Erase without a question; required without a terminal") },
  async run({ login, yes }, { store, config, audit }) {
    const account = await accountNamed(login, store);
    if (account.disabledAt === null) isEnabled(login);
    const counts = await store.countWork(account.accountId);
    const { completed, failed, cancelled, bytes } = counts;
    const total = openTasksOf(counts) + completed + failed + cancelled;
    const loss = `this erases the account ${login} with ${countText(total, "task")} permanently`;
    if (!yes && !canAsk()) fail(`${loss}; confirm with --yes`);
    await confirm({ yes }, () => `${loss}: ${bytes.toLocaleString("en")} bytes.`);
    let erased = 0;
    await bySteps(
      async () => {
        const order = { login, audit: audit("account.erased", login) };
        const part = await store.eraseAccountPart(order);
        if (part.kind === "enabled") return isEnabled(login);
        if (part.kind === "more") erased += part.tasks;
        return part.kind === "more";
      },
      () => ({ part: "tasks erased", done: erased, of: total }),
    );
    const { document, lines } = await giveRoomBack(store, config);
    const done = `Account ${login} is erased, with ${countText(erased, "task")}.`;
    return answer({ login, erased: true, tasks: erased, ...document }, done, ...lines);
  },
});

function isEnabled(login: string): never {
  fail(`the account ${login} is enabled; disable it first: '${NAME} disable ${login}'`);
}

const LIMITS = (["bytes", "openTasks", "requestsPerMinute", "tasksPerMinute"] as const).map(
  (name) => ({
    name,
    flag: name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
    /** The setting for accounts without a limit of their own, whose rule also applies to own limits. */
    setting: SETTINGS.limits.account[name],
  }),
);

const LIMIT_ARGS = Object.fromEntries(
  LIMITS.map(({ flag, setting: { key, rule } }) => {
    const own = ownLimit({ ...rule, parse: (raw) => rule.parse(raw, "") });
    return [flag, valueFlag(own, `Its own ${key}; 0 means no limit`)];
  }),
);

const limit = defineAdminCommand({
  description: "Show an account's limits and usage, and change its limits",
  example: `${NAME} limit alice --bytes 2GiB`,
  notes:
    "A change takes effect at the account's next request. 'default' removes a limit: then the configured one applies.",
  args: { ...LOGIN_ARG, ...LIMIT_ARGS },
  async run({ login, ...given }, parts) {
    const { config } = parts;
    const limits = changesOf(given);
    const { own, used } = ofAccount(login, await limitAccount({ login, limits }, parts));
    const effective = limitsOf(own, config.limits.account);
    const shown = LIMITS.map(({ name, flag, setting }) => ({
      limit: flag.replaceAll("-", "_"),
      value: effective[name],
      used: name === "bytes" || name === "openTasks" ? used[name] : null,
      source: own[name] === null ? (config.sources.get(setting.key) ?? "default") : "account",
    }));
    const rows = shown.map((row) => ({ ...row, value: row.value === 0 ? "none" : row.value }));
    return answer({ login, limits: shown }, ...tableLines(rows));
  },
});

function changesOf(given: Given<typeof LIMIT_ARGS>): Partial<OwnLimits> {
  const changes = LIMITS.flatMap(({ name, flag }) => {
    const value = given[flag] ?? null;
    return value === null ? [] : [[name, value === DEFAULT_LIMIT ? null : value] as const];
  });
  return Object.fromEntries(changes);
}

const exportCommand = defineAdminCommand({
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
    output: flag(textOf("FILE"), "Output file, readable by this user only; stdout unless given"),
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

function openNew(path: string, actsAs: string | null): number {
  try {
    return openSync(path, "wx", 0o600);
  } catch (error) {
    const hint =
      actsAs === null ? "" : `; ${actsAs} would write it, not root: use '> FILE' in its place`;
    const reason =
      codeOf(error) === "EEXIST"
        ? "exists already: name another file"
        : `cannot be created: ${messageOf(error)}${hint}`;
    return fail(`${path} ${reason}`, error);
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
    fail(`the export was interrupted: ${messageOf(error)}`, error);
  } finally {
    for (const signal of SIGNALS) process.off(signal, abort);
  }
}

const SIGNALS = ["SIGINT", "SIGTERM"] as const;

export const accountCommand = defineCommand({
  description: "Create, list, limit, disable, enable, export and erase accounts",
  example: `${NAME} create alice`,
  subCommands: { ...{ create, list, limit, disable, enable, export: exportCommand, erase } },
});
