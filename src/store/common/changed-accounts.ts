/**
 * Gathers the accounts whose tasks and deliveries a batch changes, for listeners. An account too many does no harm: the
 * account of an operation that was undone is not taken back.
 */
export class ChangedAccounts {
  readonly #seqs = new Set<number>();

  /** To be called by every write that changes a task or a delivery in a way that clients see. */
  note(accountSeq: number): void {
    this.#seqs.add(accountSeq);
  }

  /** Takes each account once; afterwards there are none. */
  take(): readonly number[] {
    if (this.#seqs.size === 0) return NONE;
    const seqs = [...this.#seqs];
    this.#seqs.clear();
    return seqs;
  }
}

const NONE: readonly number[] = [];
