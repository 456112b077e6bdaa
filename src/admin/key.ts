import type { Key as KeyShown, NewKey } from "../api/account.ts";
import { KEY_PREFIX } from "../domain/account/account.ts";
import { ACTIVE_KEYS_MAX, mintKey, type CreatedKey } from "../domain/account/key.ts";
import { timeOrNull, timeText } from "../domain/clock/time.ts";
import type { Key } from "../store/store.ts";
import type { AdminContext, KeyContext } from "./context.ts";

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
