export type StoreErrorKind =
  /** An I/O error: nothing is written any more until a restart, because nothing can be trusted. */
  | "failed"
  /** The file system takes nothing more: the disk, a quota or a file-size limit is full, or it is read-only. */
  | "full"
  /** Another process holds what the step needs: try again later. */
  | "busy"
  /** Too many steps wait already: try again later. */
  | "overloaded"
  /** The database's server cannot be asked, and the step was not begun: try again later. A file is never that. */
  | "unreachable"
  /** The store was closed. */
  | "closed"
  /**
   * Whether the step has happened is not known: its commit was broken off, or the word of it was lost. Nobody may go on
   * as if it had not, nor do it a second time where that is not the same as once. A post is answered so too: it can be
   * sent again with the same idempotency key.
   */
  | "unknown";

const PASSING: ReadonlySet<StoreErrorKind> = new Set(["full", "busy", "overloaded", "unreachable"]);

/**
 * Why the store could not do a step. Of a write nothing has happened then, except where the kind is `unknown`: such a
 * write may be whole on disk, or not at all, and never in part.
 */
export class StoreError extends Error {
  override readonly name = "StoreError" as const;
  readonly kind: StoreErrorKind;
  constructor(kind: StoreErrorKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }

  /** True when nothing has happened, and the same step may succeed later. */
  get isPassing(): boolean {
    return PASSING.has(this.kind);
  }
}
