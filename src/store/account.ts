import type { Account } from "../domain/account/account.ts";
import type { KeyHolder } from "../domain/account/credentials.ts";
import type { HeldWork } from "../domain/account/held-work.ts";
import type { AccountUsage, OwnLimits } from "../domain/account/quota.ts";
import type { TaskState } from "../domain/task/task.ts";

export type { HeldWork } from "../domain/account/held-work.ts";

/** What the store takes and gives about accounts and keys; re-exported by store.ts. */

/** What is remembered of accounts, their keys and their webhook secrets. */
export interface AccountStore {
  /** Makes an account with its first key. `exists` when the login is taken; nothing is changed then. */
  createAccount(account: NewAccount): Promise<"created" | "exists">;
  /** All accounts, by login. */
  listAccounts(): Promise<readonly Account[]>;
  /** True where there are two accounts or more. */
  hasSeveralAccounts(): Promise<boolean>;
  /** The account of this login; null when there is none. */
  findAccount(login: string): Promise<AccountState | null>;
  /** Changes the limits that an account has for itself. Answers all of them as they are then; null: no such account. */
  changeLimits(change: LimitChange): Promise<OwnLimits | null>;
  /**
   * Disables (a time) or enables (null) an account; disabling twice keeps the first time. What is disabled loses its
   * sessions for good, and from this step on nothing of it is claimed until it is enabled.
   */
  setAccountDisabled(change: { login: string; disabledAt: number | null }): Promise<Account | null>;
  /**
   * The accounts that were disabled or enabled after a change, by whichever process, those that were disabled and
   * enabled again among them; 0 comes before the first. Soon answered where there are none.
   */
  listHoldChanges(query: { after: number }): Promise<HoldChanges>;
  /** What there is of an account to hold, or to go on with. May take its time without holding up anything else. */
  findHeldWork(query: { accountId: number }): Promise<HeldWork>;
  /**
   * Erases a part of what there is of a disabled account, in the end the account itself; to be called until it is `done`.
   * Its numbers stay in those of all accounts together. What still runs ends without a trace.
   */
  eraseAccountPart(order: { login: string }): Promise<ErasedPart>;
  /** Adds a key unless the account has `activeMax` active ones already; counted in the same step. */
  createKey(key: NewKey): Promise<"created" | "no account" | "limit reached">;
  /** An account's keys, oldest first; null when there is no such account. */
  listKeys(login: string): Promise<readonly Key[] | null>;
  /**
   * Revokes a key; again keeps the first time. Null when there is no such key, or when it is not of
   * `accountId`: null there is for the operator, who may revoke any.
   */
  revokeKey(change: KeyRevocation): Promise<Key | null>;
  /** Notes when keys were last used; never back to an earlier time. Unknown keys are passed over. */
  touchKeys(uses: readonly KeyUse[]): Promise<void>;
  /** Whose key this is. Reads what is committed now, by whichever process. */
  findKeyHolder(keyHash: string): Promise<KeyHolder | null>;
  /** What user_data shows: all active keys, and of the revoked ones the last `revokedMax`, oldest first. */
  findAccountData(query: { accountId: number; revokedMax: number }): Promise<AccountData | null>;
  /** An account's webhook secrets; null when there is no such account. */
  findSecrets(login: string): Promise<WebhookSecrets | null>;
  /** Begins a rotation: `next` signs beside the current secret until {@link finishRotation}. */
  rotateSecret(rotation: { login: string; next: string }): Promise<RotationStart>;
  /** Ends a rotation: only the next secret signs from now on. */
  finishRotation(login: string): Promise<RotationEnd>;
}

export interface NewAccount {
  readonly login: string;
  readonly webhookSecret: string;
  readonly createdAt: number;
  readonly firstKey: KeyToStore;
}

/** What is stored of a new key: never the key itself. */
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

export interface Key {
  readonly keyId: string;
  readonly lastFour: string;
  readonly label: string | null;
  readonly createdAt: number;
  readonly lastUsedAt: number | null;
  readonly revokedAt: number | null;
}

export interface KeyRevocation {
  readonly keyId: string;
  readonly accountId: number | null;
  readonly revokedAt: number;
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

/** What the operator changes of an account's limits: null takes one back; what is not named stays. */
export interface LimitChange {
  readonly login: string;
  readonly limits: Partial<OwnLimits>;
}

export interface WebhookSecrets {
  readonly webhookSecret: string;
  /** Null unless a rotation is going on. */
  readonly webhookSecretNext: string | null;
}

export interface AccountData extends WebhookSecrets {
  readonly login: string;
  readonly keys: readonly Key[];
  /** How many of the account's tasks are in each state. */
  readonly taskCounts: Readonly<Record<TaskState, number>>;
  readonly usage: AccountUsage;
}

export type RotationStart = "rotating" | "already rotating" | "no account";
export type RotationEnd = "finished" | "not rotating" | "no account";

/** An account that was disabled or enabled, as it is now. */
export interface HoldChange {
  readonly accountId: number;
  readonly isDisabled: boolean;
}

export interface HoldChanges {
  readonly accounts: readonly HoldChange[];
  /** Names the last of these changes, to ask for what comes after it. */
  readonly last: number;
}

export type ErasedPart =
  | { readonly kind: "more"; readonly tasks: number }
  | { readonly kind: "done" }
  /** Nothing is erased of it. */
  | { readonly kind: "unknown" | "enabled" };
