import { defineCommand } from "citty";

import { mintAccount } from "../domain/account.ts";
import type { Account, MintedAccount } from "../domain/account.ts";
import { systemClock } from "../domain/clock.ts";
import { IdGenerator } from "../domain/id.ts";
import { timeOrNull, timeText } from "../domain/time.ts";
import { limit } from "./admin-account-limit.ts";
import { defineAdminCommand, LOGIN_ARG, loginOf, noAccount } from "./admin-command.ts";
import type { AdminStep } from "./admin-command.ts";
import { newKeyDocument } from "./admin-key.ts";
import { CommandFailure } from "./failure.ts";
import { cellText, tableLines } from "./print.ts";
import type { Answer } from "./print.ts";
import { programMeta } from "./usage.ts";

const NAME = "postbackd admin account";

const create = defineAdminCommand({
  meta: programMeta({
    name: `${NAME} create`,
    description: "Make an account with its first API key and its webhook secret",
    example: `${NAME} create alice`,
  }),
  args: LOGIN_ARG,
  mayCreate: true,
  plan: (args) => createAccount(loginOf(args)),
});

const list = defineAdminCommand({
  meta: programMeta({
    name: `${NAME} list`,
    description: "List all accounts",
    example: `${NAME} list --json`,
  }),
  args: {},
  plan: () => listAccounts,
});

const disable = defineAdminCommand({
  meta: programMeta({
    name: `${NAME} disable`,
    description: "Refuse an account's requests from now on",
    example: `${NAME} disable alice`,
    notes: "Its tasks go on, and its webhooks are still sent. A second time changes nothing.",
  }),
  args: LOGIN_ARG,
  plan: (args) => setDisabled(loginOf(args), systemClock.now()),
});

const enable = defineAdminCommand({
  meta: programMeta({
    name: `${NAME} enable`,
    description: "Accept an account's requests again",
    example: `${NAME} enable alice`,
  }),
  args: LOGIN_ARG,
  plan: (args) => setDisabled(loginOf(args), null),
});

/** `postbackd admin account …`. */
export const accountCommand = defineCommand({
  meta: programMeta({
    name: NAME,
    description: "Make, list, limit, disable and enable accounts",
    example: `${NAME} create alice`,
  }),
  subCommands: { create, list, limit, disable, enable },
});

/** An account to make now. */
export function mintAccountNow(login: string): MintedAccount {
  return mintAccount(login, { createdAt: systemClock.now(), ids: new IdGenerator() });
}

/** Shows a new account with both its secrets. */
export function newAccountAnswer({ account, first }: MintedAccount): Answer {
  const { login, webhookSecret, createdAt } = account;
  return {
    document: {
      ...accountDocument({ login, createdAt, disabledAt: null }),
      webhook_secret: webhookSecret,
      key: newKeyDocument(first),
    },
    lines: [
      `login           ${login}`,
      `key             ${first.key}`,
      `key_id          ${first.toStore.keyId}`,
      `webhook_secret  ${webhookSecret}`,
      "",
      "Store both secrets now: the key is shown this once and cannot be shown again.",
    ],
  };
}

function createAccount(login: string): AdminStep {
  return async (store) => {
    const minted = mintAccountNow(login);
    const outcome = await store.createAccount(minted.account);
    if (outcome === "exists") {
      const another = `'postbackd admin key create ${login}' makes another key for it`;
      throw new CommandFailure(`the login ${login} exists already; ${another}`);
    }
    return newAccountAnswer(minted);
  };
}

const listAccounts: AdminStep = async (store) => {
  const accounts = await store.listAccounts();
  return {
    document: { accounts: accounts.map(accountDocument) },
    lines: accounts.length === 0 ? NO_ACCOUNT : accountLines(accounts),
  };
};

const NO_ACCOUNT = [`There is no account yet; make one with '${NAME} create LOGIN'.`];

function setDisabled(login: string, disabledAt: number | null): AdminStep {
  return async (store) => {
    const account = await store.setAccountDisabled({ login, disabledAt });
    if (account === null) throw noAccount(login);
    const since = timeOrNull(account.disabledAt);
    const state = since === null ? "enabled" : `disabled since ${since}`;
    return { document: accountDocument(account), lines: [`Account ${login} is ${state}.`] };
  };
}

function accountDocument({ login, createdAt, disabledAt }: Account): Answer["document"] {
  return { login, created_at: timeText(createdAt), disabled_at: timeOrNull(disabledAt) };
}

function accountLines(accounts: readonly Account[]): readonly string[] {
  const rows = accounts.map(({ login, createdAt, disabledAt }) => [
    login,
    timeText(createdAt),
    cellText(timeOrNull(disabledAt)),
  ]);
  return tableLines(["LOGIN", "CREATED", "DISABLED"], rows);
}
