import type { OwnLimits } from "../../domain/account/quota.ts";
import type { Session } from "../store.ts";
import { toOwnLimits } from "./account-row.ts";

/** A session with its key and account, as both stores select it; without them it is the operator's. */
export interface SessionRow extends Omit<Session, "holder">, OwnLimits {
  readonly keyId: string | null;
  readonly accountId: number | null;
  readonly login: string | null;
}

export function toSession(row: SessionRow): Session {
  const { sessionId, createdAt, lastSeenAt, keyId, accountId, login } = row;
  const isAccount = keyId !== null && accountId !== null && login !== null;
  const holder = isAccount ? { accountId, login, keyId, ownLimits: toOwnLimits(row) } : null;
  return { sessionId, holder, createdAt, lastSeenAt };
}
