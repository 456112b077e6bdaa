import type { AccountLimits as LimitsShown, Usage, UserData } from "../api/account.ts";
import type { AccountOverview } from "../api/operator.ts";
import type { WorkCounts as WorkCountsShown } from "../api/stats.ts";
import type { Account } from "../domain/account/account.ts";
import { mintAccount, newWebhookSecret, type MintedAccount } from "../domain/account/key.ts";
import {
  openTasksOf,
  type AccountLimits,
  type AccountUsage,
  type OwnLimits,
} from "../domain/account/quota.ts";
import { timeOrNull, timeText } from "../domain/clock/time.ts";
import type { AccountState, HeldWork, Store, WebhookSecrets, WorkCounts } from "../store/store.ts";
import type { AdminContext, KeyContext } from "./context.ts";

/** Makes an account with its first key. Returns null if the login is taken. */
export async function createAccount(
  login: string,
  { store, now, audit, ids }: KeyContext<"createAccount">,
): Promise<MintedAccount | null> {
  const minted = mintAccount(login, { createdAt: now, ids });
  const account = { ...minted.account, audit: audit("account.created", login) };
  return (await store.createAccount(account)) === "created" ? minted : null;
}

/** Disables an account; a second time changes nothing. */
export async function disableAccount(
  login: string,
  { store, now, audit }: AdminContext<"setAccountDisabled">,
): Promise<void> {
  const change = { login, disabledAt: now, audit: audit("account.disabled", login) };
  await store.setAccountDisabled(change);
}

export async function enableAccount(
  login: string,
  { store, audit }: AdminContext<"setAccountDisabled">,
): Promise<void> {
  const change = { login, disabledAt: null, audit: audit("account.enabled", login) };
  await store.setAccountDisabled(change);
}

/** Starts the rotation of an account's webhook secret. */
export async function rotateSecret(
  login: string,
  { store, audit }: AdminContext<"rotateSecret">,
): ReturnType<Store["rotateSecret"]> {
  const next = newWebhookSecret();
  return store.rotateSecret({ login, next, audit: audit("secret.rotated", login) });
}

/** Ends the rotation: the next secret becomes the only one. */
export async function finishRotation(
  login: string,
  { store, audit }: AdminContext<"finishRotation">,
): ReturnType<Store["finishRotation"]> {
  return store.finishRotation({ login, audit: audit("secret.finished", login) });
}

/** Changes the own limits of an account that `limits` names. Returns null if the account does not exist. */
export async function limitAccount(
  { login, limits }: { readonly login: string; readonly limits: Partial<OwnLimits> },
  { store, audit }: AdminContext<"findAccount" | "changeLimits" | "countWork">,
): Promise<{ readonly own: OwnLimits; readonly used: AccountUsage } | null> {
  const account = await store.findAccount(login);
  if (account === null) return null;
  const change = { login, limits, audit: audit("account.limited", login, limits) };
  const isChange = Object.keys(limits).length > 0;
  const own = isChange ? await store.changeLimits(change) : account.ownLimits;
  if (own === null) return null;
  const counts = await store.countWork(account.accountId);
  return { own, used: { bytes: counts.bytes, openTasks: openTasksOf(counts) } };
}

export interface HeldAccount extends AccountState {
  /** Null if the account is enabled. */
  readonly held: HeldWork | null;
}

/** Finds an account with the work that waits until it is enabled. Returns null if it does not exist. */
export async function findHeldAccount(
  login: string,
  store: Pick<Store, "findAccount" | "findHeldWork">,
): Promise<HeldAccount | null> {
  const account = await store.findAccount(login);
  if (account === null) return null;
  const { accountId, disabledAt } = account;
  const held = disabledAt === null ? null : await store.findHeldWork({ accountId });
  return { ...account, held };
}

export function accountDocument({
  login,
  createdAt,
  disabledAt,
}: Account): Pick<AccountOverview, "login" | "created_at" | "disabled_at"> {
  return { login, created_at: timeText(createdAt), disabled_at: timeOrNull(disabledAt) };
}

export function secretsDocument(
  login: string,
  { webhookSecret, webhookSecretNext }: WebhookSecrets,
): Pick<UserData, "login" | "webhook_secret" | "webhook_secret_next"> {
  return { login, webhook_secret: webhookSecret, webhook_secret_next: webhookSecretNext };
}

/** The effective limits, or the own ones, of which null takes the configured one. */
export function limitsDocument<Limit extends number | null>(
  limits: Readonly<Record<keyof AccountLimits, Limit>>,
): Record<keyof LimitsShown, Limit> {
  return {
    bytes: limits.bytes,
    open_tasks: limits.openTasks,
    requests_per_minute: limits.requestsPerMinute,
    tasks_per_minute: limits.tasksPerMinute,
  };
}

export function usageDocument({ bytes, openTasks }: AccountUsage): Usage {
  return { bytes, open_tasks: openTasks };
}

export function workDocument(counts: WorkCounts): WorkCountsShown {
  const { queued, delayed, running, ready, retrying, undelivered } = counts;
  return { waiting: queued, delayed, running, ready, retrying, undelivered };
}
