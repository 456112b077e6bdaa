import { closeSync, fdatasyncSync, openSync } from "node:fs";

import { openDatabase, syncToDisk, type Connection } from "./connection.ts";
import { MIB_BYTES, type CopyPace } from "./copy-pace.ts";

// 256 KiB. Between two steps the copy rests for as long as a step took, at least a millisecond.
const STEP_PAGES = 64;
const REST_MS_MIN = 1;
const BUSY_TIMEOUT_MS = 5000;

export interface SnapshotCopy {
  /** The database, whether or not a daemon serves it. */
  readonly from: string;
  /** Made new, readable and writable by its owner only. */
  readonly to: string;
  readonly pace: CopyPace;
}

/**
 * Copies what a database holds at this moment into a new file: whole pages, in small steps. All of them are read in one
 * transaction, because SQLite begins anew whenever another connection has written between two steps of a copy. Until it
 * ends the -wal grows with what is written meanwhile. The daemon's writer does not wait for it ({@link BatchRunner});
 * and what has gathered in the -wal is then brought into the file here, not by the writer, whose next commit would wait
 * for all of it. The new file needs no -wal. Rejects with {@link CopyStopped} when the pace breaks it off; the caller
 * removes what was made.
 */
export async function copySnapshot({ from, to, pace }: SnapshotCopy): Promise<void> {
  const descriptor = openSync(to, "wx", 0o600);
  try {
    const source = openDatabase(from, { fileMustExist: true, timeout: BUSY_TIMEOUT_MS });
    try {
      source.exec("PRAGMA query_only = ON; PRAGMA wal_autocheckpoint = 0;");
      source.exec("BEGIN; SELECT count(*) FROM sqlite_schema;");
      const pageBytes = Number(source.pragma("page_size", { simple: true }));
      const tell = copyTeller(pace, pageBytes);
      const { totalPages } = await source.backup(to, {
        progress: pacing(pace, { descriptor, tell }),
      });
      tell({ totalPages, remainingPages: 0 });
      source.exec("COMMIT");
      source.pragma("wal_checkpoint(PASSIVE)");
    } finally {
      source.close();
    }
  } finally {
    closeSync(descriptor);
  }
  leaveWal(to);
  syncToDisk(to);
}

interface CopiedPages {
  readonly totalPages: number;
  readonly remainingPages: number;
}

function copyTeller({ tell }: CopyPace, pageBytes: number): (pages: CopiedPages) => void {
  const toMib = (pages: number): number => Math.ceil((pages * pageBytes) / MIB_BYTES);
  let done = -1;
  return ({ totalPages, remainingPages }) => {
    const of = toMib(totalPages);
    // The last pages are told with the last of them.
    const copied = remainingPages === 0 ? of : Math.min(toMib(totalPages - remainingPages), of - 1);
    if (copied === done) return;
    done = copied;
    tell({ part: "MiB copied", done, of });
  };
}

function pacing(
  pace: CopyPace,
  {
    descriptor,
    tell,
  }: { readonly descriptor: number; readonly tell: (pages: CopiedPages) => void },
): (pages: CopiedPages) => number {
  let begunAt = performance.now();
  return (pages) => {
    tell(pages);
    // The file system writes pages that are not on disk yet with the daemon's commits, which wait for them: beside a copy
    // of 100 MB/s one fdatasync of ten took 6 ms where 4 MiB were synced at once, 0.7 with 256 KiB, as without a copy.
    fdatasyncSync(descriptor);
    pace.rest(Math.max(REST_MS_MIN, performance.now() - begunAt));
    begunAt = performance.now();
    return STEP_PAGES;
  };
}

/** Makes a database one that is opened without a -wal and a -shm. Nobody else may have it open. */
export function leaveWal(file: string): void {
  const connection = openDatabase(file, { fileMustExist: true, timeout: 0 });
  try {
    const mode = connection.pragma("journal_mode = DELETE", { simple: true });
    if (mode !== "delete") throw new Error(`${file} keeps its -wal`);
  } finally {
    connection.close();
  }
}

/** Opens a copy, which has no -wal, without writing anything to it or beside it. */
export function openCopy(file: string): Connection {
  const connection = openDatabase(file, { readonly: true, fileMustExist: true, timeout: 0 });
  connection.exec(
    "PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;",
  );
  return connection;
}
