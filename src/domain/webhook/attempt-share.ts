// The most bytes that one claim may bring into memory; the attempts beyond it stay due. 512 results of 4 MiB ended the
// process.
const CLAIM_BYTES_MAX = 32 * 1024 * 1024;
// The most of that for one account, except its first attempt: others are claimed beside it.
const ACCOUNT_BYTES_MAX = 8 * 1024 * 1024;

/** The progress of a claim of attempts. */
export interface ClaimedBytes {
  readonly bytes: number;
  /** By account. */
  readonly bytesOf: ReadonlyMap<number, number>;
  readonly started: readonly unknown[];
}

/**
 * True when a claim may start one more attempt, by the bytes that are sent with it. One attempt is always started, and
 * one of each account while there is room, however large: it would never be sent otherwise.
 */
export function mayStart(
  { bytes: before, bytesOf, started }: ClaimedBytes,
  { accountId, bytes }: { readonly accountId: number; readonly bytes: number },
): boolean {
  if (started.length > 0 && before + bytes > CLAIM_BYTES_MAX) return false;
  const ofAccount = bytesOf.get(accountId) ?? 0;
  return ofAccount === 0 || ofAccount + bytes <= ACCOUNT_BYTES_MAX;
}

/** A claim of attempts in the making: what it has started so far. */
export class StartedAttempts implements ClaimedBytes {
  /** The `seq` of each, in their order. */
  readonly started: number[] = [];
  readonly bytesOf = new Map<number, number>();
  bytes = 0;

  /** Adds an attempt, if one more may start. */
  start(attempt: {
    readonly seq: number;
    readonly accountId: number;
    readonly bytes: number;
  }): boolean {
    if (!mayStart(this, attempt)) return false;
    const { seq, accountId, bytes } = attempt;
    this.bytes += bytes;
    this.bytesOf.set(accountId, (this.bytesOf.get(accountId) ?? 0) + bytes);
    this.started.push(seq);
    return true;
  }
}
