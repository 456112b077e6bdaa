import type { Account } from "../domain/account/account.ts";
import type { AccountUsage, OwnLimits } from "../domain/account/quota.ts";
import type { TaskState } from "../domain/task/task.ts";

/** What the store takes and gives about accounts and keys; re-exported by store.ts. */

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
