export type StoreErrorKind =
  /** An I/O error: nothing is written any more until a restart, because nothing can be trusted. */
  | "failed"
  /** The file system takes nothing more: the disk, a quota or a file-size limit is full, or it is read-only. */
  | "full"
  /** Another process holds something that the step needs: try again later. */
  | "busy"
  /** Too many steps wait already: try again later. */
  | "overloaded"
  /**
   * The database's server cannot be reached, and the step was not begun: try again later. Never the case with a file.
   */
  | "unreachable"
  /** The store was closed. */
  | "closed"
  /**
   * It is unknown whether the step has happened: its commit was interrupted, or the reply was lost. No caller may go on
   * as if it had not happened, nor repeat it where doing it twice differs from doing it once. A post is answered so
   * too: it can be sent again with the same idempotency key.
   */
  | "unknown";

const PASSING: ReadonlySet<StoreErrorKind> = new Set(["full", "busy", "overloaded", "unreachable"]);

/**
 * Why the store could not do a step. The write has not happened, except with the kind `unknown`: then it is on disk
 * entirely or not at all.
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

/** A fault of the database file itself and how to fix it, as data because it crosses threads. */
export interface FileTrouble {
  /** Safe for responses: it contains no path. */
  readonly reason: string;
  readonly remedy: string;
  /** SQLite's own words for it. */
  readonly detail?: string;
}

/** Describes pages of the file that SQLite cannot have written. */
export function damage(detail: string): FileTrouble {
  const remedy =
    "stop the daemon, put a copy in its place with 'postbackd backup restore COPY', which sets the file aside, then start " +
    "again";
  return { reason: "the database file is damaged", remedy, detail };
}

/** The file cannot be written to, or no longer. Nothing is acknowledged any more until a restart. */
export class FileFault extends StoreError {
  readonly trouble: FileTrouble;
  constructor(trouble: FileTrouble, options?: ErrorOptions) {
    const { reason, remedy, detail } = trouble;
    super("failed", `${reason}${detail === undefined ? "" : ` (${detail})`}: ${remedy}`, options);
    this.trouble = trouble;
  }
}
