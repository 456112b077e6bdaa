import type { AccountUsage } from "../account/quota.ts";
import type { StoredState } from "../task/task.ts";
import type { CountedWord } from "./work-changes.ts";

/** Where the sums of a batch are written. */
export interface CountWriter {
  add(accountSeq: number, word: CountedWord, count: number): void;
}

/**
 * Gathers in memory how a batch changes the accounts' counts, so that the changes are written once, at its end: 256
 * claimed tasks of one account cost two rows, not 512.
 */
export class CountTally {
  /** The sums by account, then by word. */
  readonly #sums = new Map<number, Map<CountedWord, number>>();

  /** Raises one of an account's counts; a negative number lowers it. */
  add(accountSeq: number, word: CountedWord, count: number): void {
    if (count === 0) return;
    const sums = this.#sums.get(accountSeq) ?? new Map<CountedWord, number>();
    if (sums.size === 0) this.#sums.set(accountSeq, sums);
    sums.set(word, (sums.get(word) ?? 0) + count);
  }

  /** Moves one of its tasks from one state to the other. */
  move(accountSeq: number, from: StoredState, to: StoredState): void {
    this.add(accountSeq, from, -1);
    this.add(accountSeq, to, 1);
  }

  /** The usage of an account now, from its usage when the batch began. */
  usageAfter(accountSeq: number, before: AccountUsage): AccountUsage {
    const sums = this.#sums.get(accountSeq);
    if (sums === undefined) return before;
    let { bytes, openTasks } = before;
    for (const [word, sum] of sums) {
      if (word === "bytes") bytes += sum;
      else if (word === "queued" || word === "delayed" || word === "running") openTasks += sum;
    }
    return { bytes, openTasks };
  }

  /** Writes the changes, adds the accounts that they concern to `changed`, and begins anew. */
  write(writer: CountWriter, changed: Set<number>): void {
    for (const [accountSeq, sums] of this.#sums) {
      changed.add(accountSeq);
      for (const [word, sum] of sums) if (sum !== 0) writer.add(accountSeq, word, sum);
    }
    this.#sums.clear();
  }

  /** The batch was undone. */
  reset(): void {
    this.#sums.clear();
  }
}
