import { closeSync, fdatasyncSync, openSync } from "node:fs";
import { type FileHandle, open, rm, unlink } from "node:fs/promises";

import { codeOf } from "../../../domain/error.ts";
import type { TellProgress } from "../../../domain/log.ts";
import { type Connection, openDatabase, syncToDisk } from "./connection.ts";

// 256 KiB. Between two steps the copy rests for as long as a step took, at least a millisecond.
const STEP_PAGES = 64;
const REST_MS_MIN = 1;
const BUSY_TIMEOUT_MS = 5000;

interface SnapshotCopy {
  /** The database, whether or not a daemon serves it. */
  readonly from: string;
  /** Made new, readable and writable by its owner only. */
  readonly to: string;
  readonly pace: CopyPace;
}

/**
 * Copies what a database holds at this moment into a new file: whole pages, in small steps. All of them are read in one
 * transaction, because SQLite restarts the copy if another connection writes between two steps. Until it ends the -wal
 * grows with what is written meanwhile. The daemon's writer does not wait for it ({@link BatchRunner}); and what has
 * gathered in the -wal is then brought into the file here, not by the writer, whose next commit would wait for all of
 * it. The new file needs no -wal. Rejects with {@link CopyStopped} when the pace breaks it off; the caller removes what
 * was made.
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
    // The last pages are reported together.
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

/** Makes a database open without a -wal and a -shm. No other connection may have it open. */
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

/** The caller that waits for long work on a copy. */
export interface CopyWatch {
  /** Called again and again; it may throw to break the work off. */
  readonly check: () => void;
  readonly tell: TellProgress;
}

/** For work that is never aborted or observed. */
export const UNWATCHED: CopyWatch = { check() {}, tell() {} };

export const MIB_BYTES = 1024 ** 2;

/** Thrown where a copy is broken off. */
class CopyStopped extends Error {
  override readonly name = "CopyStopped" as const;
  constructor() {
    super("the backup was broken off");
  }
}

/** Keeps a copy from taking a busy daemon's time, and can break it off. It occupies its thread while it waits. */
export class CopyPace implements CopyWatch {
  readonly #stop: Int32Array;
  readonly tell: TellProgress;

  /** `stop` is shared with the caller that may abort the copy; see {@link stopCopy}. */
  constructor(stop: SharedArrayBuffer, tell: TellProgress = () => {}) {
    this.#stop = new Int32Array(stop);
    this.tell = tell;
  }

  /** Waits. Throws {@link CopyStopped} when the copy was broken off. */
  rest(ms: number): void {
    Atomics.wait(this.#stop, 0, 0, Math.max(0, ms));
    this.check();
  }

  /** Throws {@link CopyStopped} when the copy was broken off. */
  readonly check = (): void => {
    if (this.isStopped()) throw new CopyStopped();
  };

  readonly isStopped = (): boolean => Atomics.load(this.#stop, 0) !== 0;
}

/** The memory through which {@link stopCopy} reaches a {@link CopyPace}. */
export function newStopFlag(): SharedArrayBuffer {
  return new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
}

/** Breaks a copy off at its next step. */
export function stopCopy(stop: SharedArrayBuffer): void {
  const flag = new Int32Array(stop);
  Atomics.store(flag, 0, 1);
  Atomics.notify(flag, 0);
}

// ext4 gives the room of a removed file back within one commit of its journal, and every fsync meanwhile waits: 46 to
// 84 ms for 845 MB, 2 to 3 ms with steps of this size that are on disk one by one (measured with `discard`).
const STEP_BYTES = 8 * MIB_BYTES;

/** True once no time is left to remove anything in small steps. */
export type IsHurried = () => boolean;

/**
 * Removes a large file without delaying other writers of the file system: the name is removed immediately, the space is
 * freed in small steps. An abort leaves nothing behind. A file that is not there is removed.
 */
export async function removeGradually(file: string, isHurried: IsHurried): Promise<void> {
  const handle = await openToRemove(file);
  if (handle === null) return rm(file, { force: true });
  try {
    await unlink(file);
  } catch (error) {
    await handle.close();
    throw error;
  }
  await freeGradually(handle, isHurried);
}

/**
 * Opens a file that is about to lose its name, for {@link freeGradually}. Null if the file does not exist, or this user
 * may not shorten it.
 */
export async function openToRemove(file: string): Promise<FileHandle | null> {
  try {
    return await open(file, "r+");
  } catch (error) {
    if (["ENOENT", "EACCES", "EPERM", "EROFS"].includes(codeOf(error) ?? "")) return null;
    throw error;
  }
}

/**
 * Closes a file. Its disk space is released in small steps if it has no other name: under another name it is still in
 * use.
 */
export async function freeGradually(handle: FileHandle, isHurried: IsHurried): Promise<void> {
  try {
    const { nlink, size } = await handle.stat();
    for (let left = nlink === 0 ? size : 0; left > STEP_BYTES && !isHurried();) {
      left -= STEP_BYTES;
      await handle.truncate(left);
      await handle.sync();
    }
  } finally {
    await handle.close();
  }
}
