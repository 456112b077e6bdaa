// So much may one claim bring into memory; beyond it attempts stay due. 512 results of 4 MiB took the process down.
const CLAIM_BYTES_MAX = 32 * 1024 * 1024;
// So much of that may be one account's, its first attempt aside: others are claimed beside it.
const ACCOUNT_BYTES_MAX = 8 * 1024 * 1024;

/** A claim of attempts, as far as it has got. */
export interface ClaimedBytes {
  readonly bytes: number;
  /** By account. */
  readonly bytesOf: ReadonlyMap<number, number>;
  readonly started: readonly unknown[];
}

/**
 * True where a claim may start one more attempt, by the bytes that are sent with it. One is always started, and one of each
 * account while there is room, however large: it would never be sent otherwise.
 */
export function mayStart(
  { bytes: before, bytesOf, started }: ClaimedBytes,
  { accountId, bytes }: { readonly accountId: number; readonly bytes: number },
): boolean {
  if (started.length > 0 && before + bytes > CLAIM_BYTES_MAX) return false;
  const ofAccount = bytesOf.get(accountId) ?? 0;
  return ofAccount === 0 || ofAccount + bytes <= ACCOUNT_BYTES_MAX;
}
