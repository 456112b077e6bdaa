import type { KeyHolder } from "../../domain/account/credentials.ts";
import type { OwnLimits } from "../../domain/account/quota.ts";

/** Rows of accounts and of what belongs to them, as both stores select them. */

export interface KeyHolderRow extends Pick<KeyHolder, "accountId" | "login" | "keyId">, OwnLimits {
  readonly revokedAt: number | null;
  readonly disabledAt: number | null;
}

export function toKeyHolder(row: KeyHolderRow): KeyHolder {
  const { accountId, login, keyId, revokedAt, disabledAt } = row;
  const keyRevoked = revokedAt !== null;
  const accountDisabled = disabledAt !== null;
  const ownLimits = toOwnLimits(row);
  return { accountId, login, keyId, keyRevoked, accountDisabled, ownLimits };
}

/** Takes the limits out of a row that has more. */
export function toOwnLimits(row: OwnLimits): OwnLimits {
  const { bytes, openTasks, requestsPerMinute, tasksPerMinute } = row;
  return { bytes, openTasks, requestsPerMinute, tasksPerMinute };
}
