import type { AccessRequest, AccessRequestFields } from "../domain/account/account.ts";
import type { SuspendedWork } from "../domain/account/account.ts";
import type { Account } from "../domain/account/account.ts";
import type { KeyHolder } from "../domain/account/credentials.ts";
import type { AccountUsage, OwnLimits } from "../domain/account/quota.ts";
import type { TaskState } from "../domain/task/task.ts";
import type { Audited } from "./upkeep.ts";

export type { SuspendedWork } from "../domain/account/account.ts";

/** Remembers accounts, their keys and their webhook secrets. */
export interface AccountStore {
  /** Makes an account with its first key. Returns `exists` and changes nothing if the login is taken. */
  createAccount(account: NewAccount & Audited): Promise<"created" | "exists">;
  /** Lists all accounts, by login. */
  listAccounts(): Promise<readonly Account[]>;
  /** True when there are at least two accounts. */
  hasSeveralAccounts(): Promise<boolean>;
  /** Finds the account with this login; null if it does not exist. */
  findAccount(login: string): Promise<AccountState | null>;
  /**
   * Changes the limits that an account has of its own: null removes one, and a limit that is not named stays. Returns
   * all its limits after the change; null if the account does not exist.
   */
  changeLimits(
    change: { login: string; limits: Partial<OwnLimits> } & Audited,
  ): Promise<OwnLimits | null>;
  /**
   * Disables (a time) or enables (null) an account. Disabling it twice keeps the first time. A disabled account loses
   * its sessions permanently, and its work is not claimed until the account is enabled.
   */
  setAccountDisabled(
    change: { login: string; disabledAt: number | null } & Audited,
  ): Promise<Account | null>;
  /**
   * Lists the accounts that any process disabled or enabled after a given change, including those that were disabled
   * and enabled again; 0 comes before the first change. Quick if no such account exists.
   */
  listSuspensionChanges(query: { after: number }): Promise<SuspensionChanges>;
  /**
   * Finds the work of a suspended account, which goes on when the account is enabled. It may take long, and delays nothing
   * else.
   */
  findSuspendedWork(query: { accountId: number }): Promise<SuspendedWork>;
  /**
   * Erases a part of a disabled account, and in the end the account itself; to be called until it answers `done`. The
   * account's numbers stay in the totals of all accounts. Runs that are still under way end without a trace.
   */
  eraseAccountPart(order: { login: string } & Audited): Promise<ErasedPart>;
  /** Adds a key unless the account has `activeMax` active ones already; they are counted in the same step. */
  createKey(key: NewKey & Audited): Promise<"created" | "no account" | "limit reached">;
  /** Lists an account's keys, oldest first; null if the account does not exist. */
  listKeys(login: string): Promise<readonly Key[] | null>;
  /**
   * Revokes a key; revoking it again keeps the first time. Null if the key does not exist or does not belong to
   * `accountId`. A null `accountId` stands for the operator, who may revoke any key.
   */
  revokeKey(
    change: {
      keyId: string;
      accountId: number | null;
      revokedAt: number;
    } & Audited,
  ): Promise<Key | null>;
  /** Notes when keys were last used; a time never moves back. Unknown keys are passed over. */
  touchKeys(uses: readonly KeyUse[]): Promise<void>;
  /** Finds the holder of a key. Reads what is committed now, by whichever process. */
  findKeyHolder(keyHash: string): Promise<KeyHolder | null>;
  /** Finds what user_data shows: all active keys and the last `revokedMax` revoked ones, oldest first. */
  findAccountData(query: { accountId: number; revokedMax: number }): Promise<AccountData | null>;
  /** Finds an account's webhook secrets; null if the account does not exist. */
  findSecrets(login: string): Promise<WebhookSecrets | null>;
  /** Begins a rotation: `next` signs beside the current secret until {@link finishRotation}. */
  rotateSecret(
    rotation: {
      login: string;
      next: string;
    } & Audited,
  ): Promise<"rotating" | "already rotating" | "no account">;
  /** Ends a rotation: only the next secret signs from now on. */
  finishRotation(
    rotation: { login: string } & Audited,
  ): Promise<"finished" | "not rotating" | "no account">;
}

export interface NewAccount {
  readonly login: string;
  readonly webhookSecret: string;
  readonly createdAt: number;
  readonly firstKey: KeyToStore;
}

/** The stored part of a new key, which never includes the key itself. */
export interface KeyToStore {
  readonly keyId: string;
  readonly hash: string;
  readonly lastFour: string;
  readonly label: string | null;
}

export interface NewKey extends KeyToStore {
  readonly login: string;
  readonly createdAt: number;
  readonly activeMax: number;
}

export interface Key extends Omit<KeyToStore, "hash"> {
  readonly createdAt: number;
  readonly lastUsedAt: number | null;
  readonly revokedAt: number | null;
}

export interface KeyUse {
  readonly keyId: string;
  readonly usedAt: number;
}

/** An account as it is now. */
export interface AccountState extends Account {
  readonly accountId: number;
  /** True from the beginning of a rotation of its webhook secret to its end. */
  readonly isRotating: boolean;
  readonly ownLimits: OwnLimits;
}

export interface WebhookSecrets {
  readonly webhookSecret: string;
  /** Null unless a rotation is going on. */
  readonly webhookSecretNext: string | null;
}

export interface AccountData extends WebhookSecrets {
  readonly login: string;
  readonly keys: readonly Key[];
  /** The number of the account's tasks in each state. */
  readonly taskCounts: Readonly<Record<TaskState, number>>;
  readonly usage: AccountUsage;
}

export interface SuspensionChanges {
  /** The accounts that were disabled or enabled, as they are now. */
  readonly accounts: readonly { readonly accountId: number; readonly isDisabled: boolean }[];
  /** Also returns the position of the last change, after which the next call continues. */
  readonly last: number;
}

export type ErasedPart =
  | { readonly kind: "more"; readonly tasks: number }
  | { readonly kind: "done" }
  /** Nothing of the account is erased. */
  | { readonly kind: "unknown" | "enabled" };

export interface AccessRequestStore {
  /**
   * Keeps a request unless `pendingMax` others wait for a decision already. The oldest of them is erased for it if it
   * has waited for a day.
   */
  insertAccessRequest(request: NewAccessRequest): Promise<"stored" | "limit reached">;
  /**
   * Lists requests, oldest first: those that wait, or all. At most `limit`, and no account after the first that exceeds
   * `lettersMax`.
   */
  listAccessRequests(query: {
    which: "pending" | "all";
    limit: number;
    lettersMax?: number;
  }): Promise<readonly AccessRequest[]>;
  /** Finds the request that was approved by making this account; null for none. It looks through all requests. */
  findApprovedRequest(accountId: number): Promise<AccessRequest | null>;
  /** Counts the requests that wait for a decision, up to `max`. */
  countPendingRequests(max: number): Promise<number>;
  /** Makes the account and decides the request, both or neither. */
  approveAccessRequest(
    approval: AccessApproval & Audited,
  ): Promise<"approved" | "exists" | Undecidable>;
  denyAccessRequest(
    denial: { id: string; decidedAt: number } & Audited,
  ): Promise<"denied" | Undecidable>;
  /** Denies all requests that wait and were made before a time. Returns how many. */
  denyAccessRequests(denial: { madeBefore: number; decidedAt: number } & Audited): Promise<number>;
}

export interface NewAccessRequest {
  readonly id: string;
  readonly fields: AccessRequestFields;
  readonly createdAt: number;
  readonly pendingMax: number;
}

export interface AccessApproval {
  readonly id: string;
  readonly decidedAt: number;
  readonly account: NewAccount;
}

/** Why a request cannot be decided: it does not exist, or it was decided before. */
export type Undecidable = "unknown" | "decided";

export interface SessionStore {
  /** Keeps a session; answers `refused` when its key has been revoked or its account disabled meanwhile. */
  createSession(session: NewSession & Audited): Promise<"created" | "refused">;
  /**
   * Finds a session; null for an unknown one, and for one whose key is revoked or whose account is disabled. Reads what
   * is committed now, by whichever process.
   */
  findSession(hash: string): Promise<Session | null>;
  /** Notes when sessions were last used; a time never moves back. */
  touchSessions(uses: readonly SessionUse[]): Promise<void>;
  /** Ends a session; does nothing if it does not exist. */
  endSession(hash: string): Promise<void>;
  createSignInLink(link: NewSignInLink & Audited): Promise<void>;
  /**
   * Uses up a link and keeps the session that it opens, in the same step; answers `refused` for a link that is unknown,
   * used or expired.
   */
  useSignInLink(
    use: {
      hash: string;
      now: number;
      session: NewSession;
    } & Audited,
  ): Promise<"created" | "refused">;
}

/** A session to keep. The SHA-256 of its secret stands for it. */
export interface NewSession {
  readonly hash: string;
  /** The key that signed in; null for the operator. */
  readonly keyId: string | null;
  readonly createdAt: number;
  /** The most sessions of this key, or of the operator: beyond it the oldest end. */
  readonly sessionsMax: number;
}

/** A session that its key or account has not ended; its times, of the steady clock, are for the domain to judge. */
export interface Session {
  readonly sessionId: number;
  /** Null for the operator. */
  readonly holder: Omit<KeyHolder, "keyRevoked" | "accountDisabled"> | null;
  readonly createdAt: number;
  readonly lastSeenAt: number;
}

export interface SessionUse {
  readonly sessionId: number;
  readonly seenAt: number;
}

/** A link that signs the operator in, once. */
export interface NewSignInLink {
  readonly hash: string;
  readonly expiresAt: number;
}
