import type { AccountOverview } from "../api/operator.ts";
import { mintAccount, type Account, type MintedAccount } from "../domain/account/account.ts";
import { heldText, stoppedText, type HeldWork } from "../domain/account/held-work.ts";
import { NEW_LOGIN } from "../domain/account/login.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { timeOrNull, timeText } from "../domain/clock/time.ts";
import { IdGenerator } from "../domain/id.ts";
import type { Store } from "../store/store.ts";
import { limit } from "./admin-account-limit.ts";
import { defineAdminCommand, LOGIN_ARG, noAccount, accountNamed } from "./admin-command.ts";
import { newKeyDocument } from "./admin-key.ts";
import { word } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { CommandFailure } from "./failure.ts";
import { tableLines, type Answer, type Columns } from "./print.ts";
import { byCommand } from "./user.ts";

const NAME = "postbackd admin account";

const create = defineAdminCommand({
  description: "Make an account with its first API key and its webhook secret",
  example: `${NAME} create alice`,
  args: { login: word(NEW_LOGIN, LOGIN_ARG.login.description) },
  mayCreate: true,
  async run({ login }, { store }) {
    const minted = mintAccountNow(login);
    const outcome = await store.createAccount({
      ...minted.account,
      audit: byCommand("account.created", login),
    });
    if (outcome === "exists") {
      const another = `'postbackd admin key create ${login}' makes another key for it`;
      throw new CommandFailure(`the login ${login} exists already; ${another}`);
    }
    return newAccountAnswer(minted);
  },
});

const list = defineAdminCommand({
  description: "List all accounts",
  example: `${NAME} list --json`,
  args: {},
  async run(_given, { store }) {
    const accounts: ListedAccount[] = [];
    for (const account of await store.listAccounts()) {
      const held = account.disabledAt === null ? null : await heldWork(store, account.login);
      accounts.push({ ...account, held });
    }
    return {
      document: {
        accounts: accounts.map((each) => ({ ...accountDocument(each), held: each.held })),
      },
      lines: accounts.length === 0 ? [NO_ACCOUNT] : tableLines(accounts, COLUMNS),
    };
  },
});

const disable = defineAdminCommand({
  description: "Refuse an account's requests, and hold its tasks and webhooks, from now on",
  example: `${NAME} disable alice`,
  notes:
    "Running tasks are told to stop, and wait as if they had not been started. A second time changes nothing.",
  args: LOGIN_ARG,
  async run({ login }, { store }) {
    const account = await store.setAccountDisabled({
      login,
      disabledAt: systemClock.now(),
      audit: byCommand("account.disabled", login),
    });
    if (account === null) throw noAccount(login);
    const held = await heldWork(store, login);
    const stopped = stoppedText(held);
    return {
      document: { ...accountDocument(account), held },
      lines: [
        `Account ${login} is disabled since ${timeOrNull(account.disabledAt)}.`,
        `held: ${heldText(held)}${stopped === null ? "" : `; ${stopped}`}`,
        `'${NAME} enable ${login}' resumes.`,
      ],
    };
  },
});

const enable = defineAdminCommand({
  description: "Accept an account's requests again, and resume its held work",
  example: `${NAME} enable alice`,
  args: LOGIN_ARG,
  async run({ login }, { store }) {
    const before = await accountNamed(login, store);
    const account = await store.setAccountDisabled({
      login,
      disabledAt: null,
      audit: byCommand("account.enabled", login),
    });
    if (account === null) throw noAccount(login);
    const resumed = before.disabledAt === null ? null : await heldWork(store, login);
    return {
      document: { ...accountDocument(account), resumed },
      lines: [
        `Account ${login} is enabled.`,
        ...(resumed === null ? [] : [`resumed: ${heldText(resumed)}`]),
      ],
    };
  },
});

export const accountCommand = defineCommand({
  description: "Make, list, limit, disable, enable, export and erase accounts",
  example: `${NAME} create alice`,
  subCommands: {
    create,
    list,
    limit,
    disable,
    enable,
    export: async () => (await import("./admin-account-export.ts")).exportCommand,
    erase: async () => (await import("./admin-account-erase.ts")).eraseCommand,
  },
});

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

interface ListedAccount extends Account {
  /** Null when the account is enabled. */
  readonly held: HeldWork | null;
}

const NO_ACCOUNT = `There is no account yet; make one with '${NAME} create LOGIN'.`;

async function heldWork(store: Store, login: string): Promise<HeldWork> {
  const { accountId } = await accountNamed(login, store);
  return store.findHeldWork({ accountId });
}

type AccountShown = Pick<AccountOverview, "login" | "created_at" | "disabled_at">;

function accountDocument({ login, createdAt, disabledAt }: Account): AccountShown {
  return { login, created_at: timeText(createdAt), disabled_at: timeOrNull(disabledAt) };
}

const COLUMNS: Columns<ListedAccount> = {
  LOGIN: ({ login }) => login,
  CREATED: ({ createdAt }) => timeText(createdAt),
  DISABLED: ({ disabledAt }) => timeOrNull(disabledAt),
  HELD: ({ held }) => held && heldText(held),
};
