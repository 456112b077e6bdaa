import { CURSOR_RULE } from "../../api/input.ts";
import type { AccountOverview as AccountOverviewShown, NewAccount } from "../../api/operator.ts";
import { Login } from "../../api/value.ts";
import { mintAccount, newWebhookSecret, type MintedAccount } from "../../domain/account/account.ts";
import { LOGIN } from "../../domain/account/login.ts";
import { limitsOf, openTasksOf, type AccountLimits } from "../../domain/account/quota.ts";
import { timeOrNull, timeText } from "../../domain/clock/time.ts";
import { StatusError } from "../../domain/status.ts";
import type { AccountOverview, Audited, AuditEntry } from "../../store/store.ts";
import { limitsDocument, usageDocument, workDocument } from "../account-document.ts";
import { invalidField } from "../fields.ts";
import type { ApiStore, OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation, type OperationDoc } from "../operation.ts";
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
    async handle({ body: { login }, audit, now }) {
      const minted = mintAccount(login, { createdAt: now, ids });
      const account = { ...minted.account, audit: audit("account.created", login) };
      if ((await store.createAccount(account)) === "exists") throw loginTaken();
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

interface MadeChange extends Required<Audited> {
  readonly login: string;
  readonly now: number;
}

/** A change that the operator makes to one account; answers the account's new state. */
interface Change {
  readonly name: "disable" | "enable" | "rotate" | "finish";
  readonly doc: Pick<OperationDoc, "id" | "summary" | "description">;
  readonly action: AuditEntry["action"];
  /** True when the account's work is held by it, or goes on. */
  readonly isOfHold?: true;
  /** Throws a StatusError when it cannot be done. */
  readonly make: (store: ApiStore, change: MadeChange) => Promise<unknown>;
}

export function accountChanges({ store, accountsChanged }: OperationDeps): readonly Operation[] {
  return CHANGES.map(({ name, doc, action, isOfHold, make }) =>
    defineOperation(`POST /v1/operator/accounts/${name}/:login`, {
      access: "operator",
      doc: {
        ...doc,
        group: "Operator",
        params: {
          login: { description: "Login of the account.", schema: Login, example: "alice" },
        },
        codes: [40400, 50700],
      },
      async handle({ params, audit, now }) {
        const login = params["login"] ?? "";
        await make(store, { login, now, audit: audit(action, login) });
        const account = await store.findAccount(login);
        if (account === null) throw new StatusError(40400);
        const { accountId, disabledAt, isRotating } = account;
        // Counted before runs are told to stop: after that they are queued.
        const held = disabledAt === null ? null : await store.findHeldWork({ accountId });
        if (isOfHold === true) accountsChanged();
        const state = { disabled_at: timeOrNull(disabledAt), is_rotating: isRotating };
        return { fields: { account: { login, ...state, held } } };
      },
    }),
  );
}

const CHANGES: readonly Change[] = [
  {
    name: "disable",
    action: "account.disabled",
    doc: {
      id: "disableAccount",
      summary: "Disable an account",
      description:
        "Its requests are refused from now on and its sessions are over. What it has queued is not started, its webhooks are " +
        "not sent, and what runs is told to stop, all until it is enabled: then each task that was stopped runs again as if " +
        "it had not been started. `held` says how much that is. A second time changes nothing.",
    },
    isOfHold: true,
    make: (store, { login, now, audit }) =>
      store.setAccountDisabled({ login, disabledAt: now, audit }),
  },
  {
    name: "enable",
    action: "account.enabled",
    doc: {
      id: "enableAccount",
      summary: "Enable an account",
      description:
        "Its requests are accepted again, and what was held goes on: its queue and its webhooks.",
    },
    isOfHold: true,
    make: (store, { login, audit }) => store.setAccountDisabled({ login, disabledAt: null, audit }),
  },
  {
    name: "rotate",
    action: "secret.rotated",
    doc: {
      id: "rotateSecret",
      summary: "Begin to replace an account's webhook secret",
      description:
        "Its webhooks are signed with both secrets until the rotation is finished: `X-Signature` with the current one, " +
        "`X-Signature-Next` with the next one. The account sees both in its user data.",
    },
    async make(store, { login, audit }) {
      const outcome = await store.rotateSecret({ login, next: newWebhookSecret(), audit });
      if (outcome !== "already rotating") return;
      const detail = "The secret of this account is rotating already: finish that rotation first.";
      throw new StatusError(40000, { detail });
    },
  },
  {
    name: "finish",
    action: "secret.finished",
    doc: {
      id: "finishRotation",
      summary: "End the rotation of an account's webhook secret",
      description:
        "The next secret signs alone from now on, and the one before it is forgotten: do this once every receiver knows " +
        "the next one.",
    },
    async make(store, { login, audit }) {
      if ((await store.finishRotation({ login, audit })) !== "not rotating") return;
      const detail = "The secret of this account is not rotating: begin a rotation first.";
      throw new StatusError(40000, { detail });
    },
  },
];
