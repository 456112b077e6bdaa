import { CURSOR_RULE } from "../../api/input.ts";
import type { AccountOverview as AccountOverviewShown, NewAccount } from "../../api/operator.ts";
import { mintAccount, type MintedAccount } from "../../domain/account/account.ts";
import { LOGIN } from "../../domain/account/login.ts";
import { limitsOf, openTasksOf, type AccountLimits } from "../../domain/account/quota.ts";
import { timeOrNull, timeText } from "../../domain/clock/time.ts";
import type { AccountOverview } from "../../store/store.ts";
import { limitsDocument, usageDocument, workDocument } from "../account-document.ts";
import { invalidField } from "../fields.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";
import { refusedValue } from "../query.ts";

/** Shows a new account with both its secrets, only this once. */
export function newAccount({ account, first }: MintedAccount): NewAccount {
  const { login, webhookSecret } = account;
  return { login, key: first.key, webhook_secret: webhookSecret };
}

/** 40501 for a login that another account has. */
export function loginTaken() {
  return invalidField("login", "Another account has this login: choose another one.");
}

export function accountList({ store, limits }: OperationDeps): Operation {
  return defineOperation("GET /v1/operator/accounts", {
    access: "operator",
    doc: {
      id: "listAccounts",
      group: "Operator",
      summary: "List accounts",
      description: "All accounts, by login.",
    },
    async handle({ query: { q, cursor, limit: max }, now }) {
      const { accounts, next } = await store.listAccountOverviews({
        part: q === "" ? null : q,
        after: cursor === null ? null : fromCursor(cursor),
        now,
        limit: max,
      });
      const shown = accounts.map((account) => accountDocument(account, limits.account));
      const cursorOfNext = next === null ? null : toCursor(next);
      return { fields: { accounts: shown, next_cursor: cursorOfNext } };
    },
  });
}

export function accountCreate({ store, ids }: OperationDeps): Operation {
  return defineOperation("POST /v1/operator/accounts", {
    access: "operator",
    doc: {
      id: "createAccount",
      group: "Operator",
      summary: "Make an account",
      description: "The key is shown this once. A login that is taken is 40501.",
      codes: [50700],
      examples: { alice: { login: "alice" } },
    },
    async handle({ body: { login }, now }) {
      const minted = mintAccount(login, { createdAt: now, ids });
      if ((await store.createAccount(minted.account)) === "exists") throw loginTaken();
      return { fields: newAccount(minted) };
    },
  });
}

function accountDocument(account: AccountOverview, standard: AccountLimits): AccountOverviewShown {
  const { counts, day } = account;
  const ended = day.delivered + day.givenUp + day.refused;
  return {
    login: account.login,
    created_at: timeText(account.createdAt),
    disabled_at: timeOrNull(account.disabledAt),
    keys_active: account.keysActive,
    is_rotating: account.isRotating,
    held: account.held,
    tasks: workDocument(counts),
    limits: limitsDocument(limitsOf(account.ownLimits, standard)),
    usage: usageDocument({ bytes: counts.bytes, openTasks: openTasksOf(counts) }),
    day: {
      posted: day.posted,
      delivered: day.delivered,
      given_up: day.givenUp,
      refused: day.refused,
      success: ended === 0 ? null : day.delivered / ended,
    },
  };
}

// Escaped, because a + in a query is a space.
function toCursor(login: string): string {
  return Buffer.from(`accounts-${login}`).toString("base64url");
}

function fromCursor(cursor: string): string {
  const login = Buffer.from(cursor, "base64url")
    .toString("latin1")
    .replace(/^accounts-/, "");
  const isLogin = LOGIN.parse(login).kind === "value";
  if (isLogin && toCursor(login) === cursor) return login;
  throw refusedValue("cursor", CURSOR_RULE);
}
