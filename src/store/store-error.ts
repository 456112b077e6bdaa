export type StoreErrorKind =
  /** An I/O error: nothing is written any more until a restart, because nothing can be trusted. */
  | "failed"
  /** The disk is full: this step did not happen; a later one may. */
  | "full"
  /** Another process holds the file, or the backlog of writes is at its limit: try again later. */
  | "busy"
  | "overloaded"
  /** The store was closed. */
  | "closed";

/** Why the store could not do a step. Nothing of the step has happened. */
export class StoreError extends Error {
  override readonly name = "StoreError" as const;
  readonly kind: StoreErrorKind;
  constructor(kind: StoreErrorKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }

  /** True when the same step may succeed later. */
  get isPassing(): boolean {
    return this.kind === "full" || this.kind === "busy" || this.kind === "overloaded";
  }
}
