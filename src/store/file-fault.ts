import { StoreError } from "./store-error.ts";

/** What is wrong with the database file itself, and how to mend it; as data, because it crosses threads. */
export interface FileTrouble {
  /** For anybody: it names no path. */
  readonly reason: string;
  readonly remedy: string;
  /** What SQLite says of it. */
  readonly detail?: string;
}

/** Pages of the file hold what SQLite cannot have written. */
export function damage(detail: string): FileTrouble {
  const remedy =
    "stop the daemon, move the file aside together with its -wal and -shm, restore a copy in its place, then start again";
  return { reason: "the database file is damaged", remedy, detail };
}

/** The file is not, or no longer, what can be written to. Nothing is acknowledged any more until a restart. */
export class FileFault extends StoreError {
  readonly trouble: FileTrouble;
  constructor(trouble: FileTrouble, options?: ErrorOptions) {
    const { reason, remedy, detail } = trouble;
    super("failed", `${reason}${detail === undefined ? "" : ` (${detail})`}: ${remedy}`, options);
    this.trouble = trouble;
  }
}
