import { StoreError } from "./store-error.ts";

/** A fault of the database file itself and how to fix it, as data because it crosses threads. */
export interface FileTrouble {
  /** For anybody to read: it names no path. */
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
