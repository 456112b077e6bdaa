import type { AccountUsage } from "../account/quota.ts";
import type { StoredState } from "../task/task.ts";
import type { CountChanges, CountedWord, EverWord } from "./work-changes.ts";

/** Where the sums of a batch are written. */
export interface CountWriter {
  add(accountSeq: number, word: CountedWord, count: number): void;
  noteEver(accountSeq: number, word: EverWord): void;
}

/**
 * Gathers in memory how a batch changes the accounts' counts, so that the changes are written once, at its end: 256
 * claimed tasks of one account cost two rows, not 512.
 */
export class CountTally implements CountChanges {
  /** The changes of the current operation. */
  #open: CountChange[] = [];
  #everOpen: EverChange[] = [];
  /** The changes of the batch so far: the sums by account, then by word. */
  readonly #kept = new Map<number, Map<CountedWord, number>>();
  #everKept: EverChange[] = [];
  /** The accounts that have ever done each of these, as far as it was written: once is enough. */
  readonly #everDone = new Map<EverWord, Set<number>>();

  add(accountSeq: number, word: CountedWord, count: number): void {
    if (count === 0) return;
    this.#open.push({ accountSeq, word, delta: count });
  }

  move(accountSeq: number, from: StoredState, to: StoredState): void {
    this.add(accountSeq, from, -1);
    this.add(accountSeq, to, 1);
  }

  noteEver(accountSeq: number, word: EverWord): void {
    if (this.#everDone.get(word)?.has(accountSeq) === true) return;
    this.#everOpen.push({ accountSeq, word });
  }

  /** The usage of an account now, from its usage when the batch began and everything that was kept since. */
  usageAfter(accountSeq: number, before: AccountUsage): AccountUsage {
    const sums = this.#kept.get(accountSeq);
    if (sums === undefined) return before;
    let { bytes, openTasks } = before;
    for (const [word, sum] of sums) {
      if (word === "bytes") bytes += sum;
      else if (word === "queued" || word === "delayed" || word === "running") openTasks += sum;
    }
    return { bytes, openTasks };
  }

  /** The operation is part of the batch: its changes will be written with it. `changed` gets their accounts. */
  keep(changed: { note(accountSeq: number): void }): void {
    if (this.#everOpen.length > 0) this.#everKept.push(...this.#everOpen.splice(0));
    if (this.#open.length === 0) return;
    for (const { accountSeq, word, delta } of this.#open) {
      const sums = this.#kept.get(accountSeq) ?? new Map<CountedWord, number>();
      if (sums.size === 0) this.#kept.set(accountSeq, sums);
      sums.set(word, (sums.get(word) ?? 0) + delta);
      changed.note(accountSeq);
    }
    this.#open = [];
  }

  /** The operation was undone, and its changes with it. */
  drop(): void {
    this.#open = [];
    this.#everOpen = [];
  }

  /** Writes the changes that were kept, and begins anew. */
  write(writer: CountWriter): void {
    for (const [accountSeq, sums] of this.#kept) {
      for (const [word, sum] of sums) if (sum !== 0) writer.add(accountSeq, word, sum);
    }
    this.#kept.clear();
    for (const { accountSeq, word } of this.#everKept.splice(0)) {
      const done = this.#everDone.get(word) ?? new Set();
      if (done.has(accountSeq)) continue;
      writer.noteEver(accountSeq, word);
      this.#everDone.set(word, done.add(accountSeq));
    }
  }

  /** The batch was undone. */
  reset(): void {
    this.drop();
    this.#kept.clear();
    this.#everKept = [];
    // The last batch's rows are gone; writing the others once more does no harm.
    this.#everDone.clear();
  }
}

interface CountChange {
  readonly accountSeq: number;
  readonly word: CountedWord;
  readonly delta: number;
}

interface EverChange {
  readonly accountSeq: number;
  readonly word: EverWord;
}
