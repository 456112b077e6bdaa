import type { Connection } from "./connection.ts";

const PAGE_BYTES = 4096;
// 8 MiB, as where old backups are removed: see gradual-removal.ts.
const CUT_PAGES = 2048;

/**
 * Cuts a WAL that has grown back to its size in steps, one each time that it begins again. SQLite cuts it in the commit
 * that restarts it, and all the batches wait for that: after a backup of 890 MB, in memory, 10 to 19 ms for 80 MB.
 */
export class WalCut {
  readonly #connection: Connection;
  readonly #pagesMin: number;
  /** The pages that the file has room for, and those that its next restart leaves. */
  #filePages = 0;
  #keptPages: number;

  /** Of the connection that writes. A WAL of `pagesMin` pages keeps its size. */
  constructor(connection: Connection, pagesMin: number) {
    this.#connection = connection;
    this.#pagesMin = pagesMin;
    this.#keptPages = pagesMin;
  }

  /** To be told after each batch how many pages the WAL has, and whether it has begun again since the batch before. */
  note(pages: number, hasRestarted: boolean): void {
    if (hasRestarted) this.#filePages = Math.min(this.#filePages, this.#keptPages);
    this.#filePages = Math.max(this.#filePages, pages);
    const whole = CUT_PAGES * Math.floor((this.#filePages - 1) / CUT_PAGES);
    const kept = Math.max(this.#pagesMin, whole);
    if (kept === this.#keptPages) return;
    this.#keptPages = kept;
    this.#connection.pragma(`journal_size_limit = ${kept * PAGE_BYTES}`);
  }
}
