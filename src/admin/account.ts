import type {
  AccountLimits as LimitsShown,
  Key as KeyShown,
  NewKey,
  Usage,
  UserData,
} from "../api/account.ts";
import type { AccessRequest as AccessRequestShown, AccountOverview } from "../api/operator.ts";
import type { WorkCounts as WorkCountsShown } from "../api/stats.ts";
import {
  type AccessRequest,
  type Account,
  KEY_PREFIX,
  SIGN_IN_LINK_MS,
  signInPath,
} from "../domain/account/account.ts";
import { newSignInToken } from "../domain/account/credentials.ts";
import {
  ACTIVE_KEYS_MAX,
  type CreatedKey,
  type MintedAccount,
  mintAccount,
  mintKey,
  newWebhookSecret,
} from "../domain/account/key.ts";
import {
  type AccountLimits,
  type AccountUsage,
  type OwnLimits,
  openTasksOf,
} from "../domain/account/quota.ts";
import type { Clock } from "../domain/clock/clock.ts";
import { timeOrNull, timeText } from "../domain/clock/time.ts";
import type {
  AccountState,
  AuditEntry,
  SuspendedWork,
  Key,
  Store,
  Undecidable,
  WebhookSecrets,
  WorkCounts,
} from "../store/store.ts";
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

export interface AccountWithWork extends AccountState {
  /** Null if the account is enabled. */
  readonly held: SuspendedWork | null;
}

/** Finds an account with the work that waits until it is enabled. Returns null if it does not exist. */
export async function findAccountWithWork(
  login: string,
  store: Pick<Store, "findAccount" | "findSuspendedWork">,
): Promise<AccountWithWork | null> {
  const account = await store.findAccount(login);
  if (account === null) return null;
  const { accountId, disabledAt } = account;
  const held = disabledAt === null ? null : await store.findSuspendedWork({ accountId });
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

/** Makes a key of an account. The whole key is known only now. */
export async function createKey(
  { login, label }: { readonly login: string; readonly label: string | null },
  { store, now, audit, ids }: KeyContext<"createKey">,
): Promise<NewKey | "no account" | "limit reached"> {
  const created = mintKey({ label, createdAt: now }, ids);
  const outcome = await store.createKey({
    ...created.toStore,
    login,
    createdAt: now,
    activeMax: ACTIVE_KEYS_MAX,
    audit: audit("key.created", login, { key: created.toStore.keyId }),
  });
  return outcome === "created" ? newKeyDocument(created) : outcome;
}

/** Revokes a key. Returns null if it does not exist, or does not belong to `accountId`; null is any account. */
export async function revokeKey(
  key: { readonly keyId: string; readonly accountId: number | null },
  { store, now, audit }: AdminContext<"revokeKey">,
): Promise<Key | null> {
  return store.revokeKey({ ...key, revokedAt: now, audit: audit("key.revoked", key.keyId) });
}

/** With the whole key. */
export function newKeyDocument({ key, createdAt, toStore }: CreatedKey): NewKey {
  return {
    key_id: toStore.keyId,
    key,
    prefix: KEY_PREFIX,
    last_four: toStore.lastFour,
    label: toStore.label,
    created_at: timeText(createdAt),
  };
}

/** Without the key itself. */
export function keyDocument(key: Key): KeyShown {
  return {
    key_id: key.keyId,
    prefix: KEY_PREFIX,
    last_four: key.lastFour,
    label: key.label,
    created_at: timeText(key.createdAt),
    last_used_at: timeOrNull(key.lastUsedAt),
    revoked_at: timeOrNull(key.revokedAt),
  };
}

/** Makes the account of a request. Returns `exists` if the login is taken: the request then still waits. */
export async function approveRequest(
  { id, login }: { readonly id: string; readonly login: string },
  { store, now, audit, ids }: KeyContext<"approveAccessRequest">,
): Promise<MintedAccount | "exists" | Undecidable> {
  const minted = mintAccount(login, { createdAt: now, ids });
  const outcome = await store.approveAccessRequest({
    id,
    decidedAt: now,
    account: minted.account,
    audit: audit("access.approved", login, { request: id }),
  });
  return outcome === "approved" ? minted : outcome;
}

export async function denyRequest(
  id: string,
  { store, now, audit }: AdminContext<"denyAccessRequest">,
): Promise<"denied" | Undecidable> {
  return store.denyAccessRequest({ id, decidedAt: now, audit: audit("access.denied", id) });
}

/** Denies all waiting requests that are older than `ageMs`, or all if it is null. Returns how many. */
export async function denyRequests(
  ageMs: number | null,
  { store, now, audit }: AdminContext<"denyAccessRequests">,
): Promise<number> {
  const before = ageMs === null ? null : now - ageMs;
  return store.denyAccessRequests({
    // Without an age also requests from a clock that was ahead.
    madeBefore: before ?? Number.MAX_SAFE_INTEGER,
    decidedAt: now,
    audit: audit("access.denied", null, { made_before: timeOrNull(before) }),
  });
}

export function requestDocument(request: AccessRequest): AccessRequestShown {
  const { id, email, name, company, message, createdAt, decision } = request;
  return {
    id,
    email,
    name,
    company,
    message,
    created_at: timeText(createdAt),
    decision: decision?.kind ?? null,
    decided_at: timeOrNull(decision?.decidedAt ?? null),
  };
}

/** As commands and exports show a request: with the login of its account. */
export function requestRecord(
  request: AccessRequest,
): Omit<AccessRequestShown, "id"> & { readonly request_id: string; readonly login: string | null } {
  const { id, ...fields } = requestDocument(request);
  return { request_id: id, ...fields, login: request.decision?.login ?? null };
}

/** A link that signs the operator in, once. It cannot be shown again. */
export interface SignInLink {
  readonly token: string;
  /** Its path below the address of the dashboard. */
  readonly path: string;
  readonly expiresAt: number;
}

export async function createSignInLink({
  store,
  clock,
  audit,
}: {
  readonly store: Pick<Store, "createSignInLink">;
  readonly clock: Pick<Clock, "now">;
  readonly audit: AuditEntry;
}): Promise<SignInLink> {
  const { secret: token, hash } = newSignInToken();
  const expiresAt = clock.now() + SIGN_IN_LINK_MS;
  await store.createSignInLink({ hash, expiresAt, audit });
  return { token, path: signInPath(token), expiresAt };
}
