import {
  accountDocument,
  createAccount,
  disableAccount,
  enableAccount,
  findAccountWithWork,
  finishRotation,
  limitsDocument,
  rotateSecret,
  usageDocument,
  workDocument,
} from "../../admin/account.ts";
import type { AdminContext } from "../../admin/context.ts";
import { Login } from "../../api/envelope.ts";
import { CURSOR_RULE } from "../../api/input.ts";
import type { AccountOverview as AccountOverviewShown, NewAccount } from "../../api/operator.ts";
import { LOGIN } from "../../domain/account/account.ts";
import type { MintedAccount } from "../../domain/account/key.ts";
import { limitsOf, openTasksOf, type AccountLimits } from "../../domain/account/quota.ts";
import { timeOrNull } from "../../domain/clock/time.ts";
import { StatusError } from "../../domain/status.ts";
import type { AccountOverview } from "../../store/store.ts";
import { invalidField, refusedValue } from "../inputs.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation, type OperationDoc } from "../operation.ts";

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
    id: "listAccounts",
    summary: "List accounts",
    description: "All accounts, by login.",
    async handle({ query: { q, cursor, limit: max }, now }) {
      const { accounts, next } = await store.listAccountOverviews({
        part: q === "" ? null : q,
        after: cursor === null ? null : fromCursor(cursor),
        now,
        limit: max,
      });
      const shown = accounts.map((account) => overviewDocument(account, limits.account));
      const cursorOfNext = next === null ? null : toCursor(next);
      return { fields: { accounts: shown, next_cursor: cursorOfNext } };
    },
  });
}

export function accountCreate({ store, ids }: OperationDeps): Operation {
  return defineOperation("POST /v1/operator/accounts", {
    access: "operator",
    id: "createAccount",
    summary: "Create an account",
    description:
      "The response is the only one with the complete key. A login that is taken returns 40501.",
    codes: [50700],
    examples: { alice: { login: "alice" } },
    async handle({ body: { login }, audit, now }) {
      const minted = await createAccount(login, { store, ids, audit, now });
      if (minted === null) throw loginTaken();
      return { fields: newAccount(minted) };
    },
  });
}

function overviewDocument(account: AccountOverview, standard: AccountLimits): AccountOverviewShown {
  const { counts, day } = account;
  const ended = day.delivered + day.givenUp + day.refused;
  return {
    ...accountDocument(account),
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

/** A change that the operator makes to one account; the response is the account's new state. */
interface Change extends Pick<OperationDoc, "id" | "summary" | "description"> {
  readonly name: "disable" | "enable" | "rotate" | "finish";
  /** True if the change suspends or resumes the account's work. */
  readonly isSuspension?: true;
  readonly make: (
    login: string,
    context: AdminContext<"setAccountDisabled" | "rotateSecret" | "finishRotation">,
  ) => Promise<unknown>;
  /** The outcome of `make` that is 40000, with the detail of the response. */
  readonly refusal?: { readonly outcome: string; readonly detail: string };
}

export function accountChanges({ store, accountsChanged }: OperationDeps): readonly Operation[] {
  return CHANGES.map(({ name, isSuspension, make, refusal, ...doc }) =>
    defineOperation(`POST /v1/operator/accounts/${name}/:login`, {
      access: "operator",
      ...doc,
      params: {
        login: { description: "Login of the account.", schema: Login, example: "alice" },
      },
      codes: [40400, 50700],
      async handle({ params, audit, now }) {
        const login = params["login"] ?? "";
        const outcome = await make(login, { store, audit, now });
        if (refusal !== undefined && outcome === refusal.outcome) {
          throw new StatusError(40000, { detail: refusal.detail });
        }
        // Read before the daemon stops the account's runs: then they would be queued.
        const account = await findAccountWithWork(login, store);
        if (account === null) throw new StatusError(40400);
        if (isSuspension === true) accountsChanged();
        const { disabledAt, isRotating: is_rotating, held } = account;
        const disabled_at = timeOrNull(disabledAt);
        return { fields: { account: { login, disabled_at, is_rotating, held } } };
      },
    }),
  );
}

const CHANGES: readonly Change[] = [
  {
    name: "disable",
    id: "disableAccount",
    summary: "Disable an account",
    description:
      "Its requests are refused and its sessions end. Its queued tasks are not started, its webhooks are " +
      "not sent, and its running tasks are stopped, until the account is enabled. A stopped task then runs again; the " +
      "stopped run does not count. `held` has the numbers. A repetition changes nothing.",
    isSuspension: true,
    make: disableAccount,
  },
  {
    name: "enable",
    id: "enableAccount",
    summary: "Enable an account",
    description: "Its requests are accepted again, and its tasks and webhooks resume.",
    isSuspension: true,
    make: enableAccount,
  },
  {
    name: "rotate",
    id: "rotateSecret",
    summary: "Begin to replace an account's webhook secret",
    description:
      "Its webhooks are signed with both secrets until the rotation is finished: `X-Signature` with the current one, " +
      "`X-Signature-Next` with the next one. The account sees both in its user data.",
    make: rotateSecret,
    refusal: {
      outcome: "already rotating",
      detail: "The secret of this account is already rotating: finish that rotation first.",
    },
  },
  {
    name: "finish",
    id: "finishRotation",
    summary: "End the rotation of an account's webhook secret",
    description:
      "Only the next secret signs from now on, and the old secret is erased: do this when every receiver has " +
      "the next secret.",
    make: finishRotation,
    refusal: {
      outcome: "not rotating",
      detail: "The secret of this account is not rotating: begin a rotation first.",
    },
  },
];
