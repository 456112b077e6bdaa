import type { Setting } from "../config/setting-row.ts";
import { SETTINGS } from "../config/setting.ts";
import { limitsOf, openTasksOf, type OwnLimits } from "../domain/account/quota.ts";
import { fault, quote, rawOf, type Rule } from "../domain/rule.ts";
import { defineAdminCommand, LOGIN_ARG, noAccount, accountNamed } from "./admin-command.ts";
import { flag as valueFlag, type Given } from "./arguments.ts";
import { tableLines } from "./print.ts";
import { byCommand } from "./user.ts";

const NAME = "postbackd admin account limit";

const ROWS = (["bytes", "openTasks", "requestsPerMinute", "tasksPerMinute"] as const).map(
  (name) => ({
    name,
    flag: name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
    /** The setting for accounts without a limit of their own, which also tells what a limit may be. */
    setting: SETTINGS.limits.account[name],
  }),
);

const DEFAULT = "default";

/** An account's own limit, or the word that removes it. */
function ownLimit({ rule }: Setting<number>): Rule<number | typeof DEFAULT> {
  return {
    ...rule,
    takes: `${rule.takes}, or ${quote(DEFAULT)}`,
    hint: `${rule.hint}|${DEFAULT}`,
    form: "text",
    parse(raw) {
      if (raw === DEFAULT) return { kind: "value", value: DEFAULT };
      const parsed = rule.parse(typeof raw === "string" ? rawOf(rule, raw) : raw, "");
      return parsed.kind === "value" ? parsed : fault(`${parsed.reason}, or ${quote(DEFAULT)}`);
    },
  };
}

const FLAGS = Object.fromEntries(
  ROWS.map(({ flag, setting }) => [
    flag,
    valueFlag(ownLimit(setting), `Its own ${setting.key}; 0 is no limit`),
  ]),
);

export const limit = defineAdminCommand({
  description: "Show an account's limits and usage, and change its limits",
  example: `${NAME} alice --bytes 2GiB`,
  notes:
    "A change counts from the account's next request on. 'default' removes a limit: then the configured one counts.",
  args: { ...LOGIN_ARG, ...FLAGS },
  async run({ login, ...given }, { store, config }) {
    const limits = changesOf(given);
    const account = await accountNamed(login, store);
    const isChange = Object.keys(limits).length > 0;
    const own = isChange
      ? await store.changeLimits({
          login,
          limits,
          audit: byCommand("account.limited", login, limits),
        })
      : account.ownLimits;
    if (own === null) throw noAccount(login);
    const counts = await store.countWork(account.accountId);
    const used = { bytes: counts.bytes, openTasks: openTasksOf(counts) };
    const counting = limitsOf(own, config.limits.account);
    const rows = ROWS.map(({ name, flag, setting }) => ({
      limit: flag.replaceAll("-", "_"),
      value: counting[name],
      used: name === "bytes" || name === "openTasks" ? used[name] : null,
      source: own[name] === null ? (config.sources.get(setting.key) ?? "default") : "account",
    }));
    const lines = tableLines(rows, {
      LIMIT: (row) => row.limit,
      VALUE: (row) => (row.value === 0 ? "none" : row.value),
      USED: (row) => row.used,
      SOURCE: (row) => row.source,
    });
    return { document: { login, limits: rows }, lines };
  },
});

function changesOf(given: Given<typeof FLAGS>): Partial<OwnLimits> {
  const changes = ROWS.flatMap(({ name, flag }) => {
    const limit = given[flag] ?? null;
    return limit === null ? [] : [[name, limit === DEFAULT ? null : limit] as const];
  });
  return Object.fromEntries(changes);
}
