export type StoreErrorKind =
  /** An I/O error: nothing is written any more until a restart, because nothing can be trusted. */
  | "failed"
  /** The file system takes nothing more: the disk, a quota or a file-size limit is full, or it is read-only. */
  | "full"
  /** Another process holds the file, or the backlog of writes is at its limit: try again later. */
  | "busy"
  | "overloaded"
  /** The store was closed. */
  | "closed"
  /**
   * Whether the step has happened is not known: its commit was broken off, or the word of it was lost. Nobody may go on
   * as if it had not; the next start finds what is there.
   */
  | "unknown";

/** Why the store could not do a step. Nothing of the step has happened, except where the kind is `unknown`. */
export class StoreError extends Error {
  override readonly name = "StoreError" as const;
  readonly kind: StoreErrorKind;
  constructor(kind: StoreErrorKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }

  /** True when nothing has happened, and the same step may succeed later. */
  get isPassing(): boolean {
    return this.kind === "full" || this.kind === "busy" || this.kind === "overloaded";
  }
}
