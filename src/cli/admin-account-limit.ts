import type { ArgsDef } from "citty";

import type { Config } from "../config/config.ts";
import { SETTINGS } from "../config/setting.ts";
import type { Setting } from "../config/setting.ts";
import { limitsOf, openTasksOf } from "../domain/account/quota.ts";
import type { AccountLimits, AccountUsage, OwnLimits } from "../domain/account/quota.ts";
import { quote, rawOf } from "../domain/rule.ts";
import { defineAdminCommand, LOGIN_ARG, loginOf, noAccount } from "./admin-command.ts";
import type { AdminStep } from "./admin-command.ts";
import { textOf } from "./arguments.ts";
import type { Arguments } from "./arguments.ts";
import { UsageError } from "./failure.ts";
import { cellText, tableLines } from "./print.ts";
import type { Answer } from "./print.ts";

const NAME = "postbackd admin account limit";

interface LimitRow {
  readonly name: keyof AccountLimits;
  readonly flag: string;
  /** What counts for accounts without a limit of their own, and what a limit may be. */
  readonly setting: Setting<number>;
}

const ROWS: readonly LimitRow[] = (
  ["bytes", "openTasks", "requestsPerMinute", "tasksPerMinute"] as const
).map((name) => ({
  name,
  flag: name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
  setting: SETTINGS.limits.account[name],
}));

const DEFAULT = "default";

const FLAGS = Object.fromEntries(
  ROWS.map(({ flag, setting }) => [
    flag,
    {
      type: "string",
      valueHint: `${setting.rule.hint}|${DEFAULT}`,
      description: `Its own ${setting.key}; 0 is no limit`,
    },
  ]),
) satisfies ArgsDef;

/** `postbackd admin account limit`. */
export const limit = defineAdminCommand({
  name: NAME,
  description: "Show what an account may take up and has, and change it",
  example: `${NAME} alice --bytes 2GiB`,
  notes:
    "Counts from the account's next request on. 'default' takes one back: then what the configuration says counts.",
  args: { ...LOGIN_ARG, ...FLAGS },
  plan: (args) => limitAccount(loginOf(args), changesOf(args)),
});

function changesOf(args: Arguments): Partial<OwnLimits> {
  const changes = ROWS.flatMap(({ name, flag, setting }) => {
    const text = textOf(args, flag);
    return text === undefined ? [] : [[name, valueOf(text, { flag, setting })] as const];
  });
  return Object.fromEntries(changes);
}

function valueOf(text: string, { flag, setting }: Omit<LimitRow, "name">): number | null {
  if (text === DEFAULT) return null;
  const parsed = setting.rule.parse(rawOf(setting.rule, text), "");
  if (parsed.kind === "value") return parsed.value;
  throw new UsageError(`--${flag} ${parsed.reason}, or ${quote(DEFAULT)}`);
}

function limitAccount(login: string, limits: Partial<OwnLimits>): AdminStep {
  return async (store, config) => {
    const account = await store.findAccount(login);
    if (account === null) throw noAccount(login);
    const isChange = Object.keys(limits).length > 0;
    const own = isChange ? await store.changeLimits({ login, limits }) : account.ownLimits;
    if (own === null) throw noAccount(login);
    const counts = await store.countWork(account.accountId);
    const usage = { bytes: counts.bytes, openTasks: openTasksOf(counts) };
    return limitAnswer({ login, own, usage }, config);
  };
}

interface Limited {
  readonly login: string;
  readonly own: OwnLimits;
  readonly usage: AccountUsage;
}

function limitAnswer({ login, own, usage }: Limited, { limits, sources }: Config): Answer {
  const counting = limitsOf(own, limits.account);
  const rows = ROWS.map(({ name, flag, setting }) => ({
    limit: flag.replaceAll("-", "_"),
    value: counting[name],
    used: name === "bytes" || name === "openTasks" ? usage[name] : null,
    source: own[name] === null ? (sources.get(setting.key) ?? "default") : "account",
  }));
  const cells = rows.map(({ limit: name, value, used, source }) => [
    name,
    value === 0 ? "none" : String(value),
    cellText(used === null ? null : String(used)),
    source,
  ]);
  return {
    document: { login, limits: rows },
    lines: tableLines(["LIMIT", "VALUE", "USED", "SOURCE"], cells),
  };
}
