import { chmodSync, existsSync, realpathSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { Worker } from "node:worker_threads";

import { threadEntries, threadOptions, version } from "../../assets.ts";
import { messageOf } from "../../domain/error.ts";
import type { TellProgress } from "../../domain/log.ts";
import type { BackupMessage, BackupOutcome, BackupThreadData } from "./backup-thread.ts";
import {
  checkContent,
  type CopyDocument,
  documentPath,
  documentText,
  sha256Of,
} from "./copy-check.ts";
import { syncToDisk } from "./machine/connection.ts";
import { refuseDamagedFile } from "./machine/file-check.ts";
import { InstanceLock, InstanceLockError } from "./machine/instance-lock.ts";
import { refuseSecondName } from "./machine/open-files.ts";
import {
  type CopyPace,
  type IsHurried,
  copySnapshot,
  freeGradually,
  newStopFlag,
  openToRemove,
  removeGradually,
  stopCopy,
} from "./machine/snapshot-copy.ts";
import { forgetInstallation } from "./served-file.ts";

/** An order to copy a database. */
export interface BackupOrder {
  /** The database file, whether or not a daemon serves it. */
  readonly database: string;
  /** The copy. Its document lies beside it, as `FILE.json`. */
  readonly file: string;
  /** True to put the copy in the place of a file of that name, once it is whole. */
  readonly mayReplace: boolean;
  /** The time that the document names. */
  readonly now: number;
  /** True in the daemon that serves the database: see {@link makeBackup}. */
  readonly isServedHere: boolean;
}

/**
 * Makes a copy of the database as it is now, and its document: beside the file that is ordered, under another name until
 * it is checked and on disk. Whenever this is broken off, the file of that name is the old one or whole. Resolves with
 * the document; what is unfinished is removed when it rejects, and by the next one after a crash.
 *
 * A process that serves the database must not look at the file as such: when it closes it, the kernel drops SQLite's locks
 * on it, and the next process that opens it would take itself for the only one, and remove the -wal. The daemon has
 * looked at its start, and watches the file.
 */
export async function makeBackup(order: BackupOrder, pace: CopyPace): Promise<CopyDocument> {
  const { database, file, mayReplace } = order;
  if (!mayReplace && existsSync(file)) {
    throw new Error(`${file} exists already: name another file, or give --replace`);
  }
  refuseOwnName(order);
  refuseSecondName(database);
  if (!order.isServedHere) refuseDamagedFile(database);
  const lock = lockBackups(database);
  try {
    const document = await makeParts(order, pace);
    // A file of that name that was created since then belongs to another process.
    if (!mayReplace && existsSync(file)) throw new Error(`${file} was made meanwhile`);
    await install(file, pace);
    return document;
  } catch (error) {
    await removeUnfinished(file, pace.isStopped);
    throw error;
  } finally {
    lock.release();
  }
}

// To replace what a daemon has open would lose it.
function refuseOwnName({ database, file }: BackupOrder): void {
  const real = realpathSync(database);
  const copy = join(realpathSync(dirname(file)), basename(file));
  const own = ["", "-wal", "-shm", "-journal", ".lock"].map((suffix) => real + suffix);
  if (!own.includes(copy)) return;
  throw new Error(`${file} belongs to the database itself: name another file`);
}

/** Two concurrent backups would slow the daemon twice as much, and one could use the other's parts as its own. */
function lockBackups(database: string): InstanceLock {
  try {
    return InstanceLock.acquire(`${database}.backup`);
  } catch (error) {
    if (!(error instanceof InstanceLockError)) throw error;
    const who = error.holder === null ? "another process" : `process ${error.holder.pid}`;
    throw new Error(`${who} makes a backup of ${database} already: wait for its end`, {
      cause: error,
    });
  }
}

/** Makes the copy and its document under their other names, whole and on disk. */
async function makeParts(
  { database, file, now }: BackupOrder,
  pace: CopyPace,
): Promise<CopyDocument> {
  await removeUnfinished(file, pace.isStopped);
  const part = partOf(file);
  await copySnapshot({ from: database, to: part, pace });
  forgetInstallation(part);
  const facts = checkContent(part, pace, "pages");
  const document: CopyDocument = {
    ...facts,
    createdAt: now,
    program: version,
    sha256: sha256Of(part, pace),
  };
  writeFileSync(partOf(documentPath(file)), documentText(document), { mode: 0o600 });
  syncToDisk(partOf(documentPath(file)));
  return document;
}

// A whole copy without its document passes a check; one beside the document of another does not.
async function install(file: string, { isStopped }: CopyPace): Promise<void> {
  const folder = dirname(file);
  const replaced = await openToRemove(file);
  try {
    rmSync(documentPath(file), { force: true });
    syncToDisk(folder);
    chmodSync(partOf(file), 0o600);
    renameSync(partOf(file), file);
    syncToDisk(folder);
    renameSync(partOf(documentPath(file)), documentPath(file));
    syncToDisk(folder);
  } finally {
    // If it still has its name, nothing was replaced.
    if (replaced !== null) await freeGradually(replaced, isStopped);
  }
}

/** Removes what a backup of this name left that did not come to its end. */
export async function removeUnfinished(file: string, isHurried: IsHurried): Promise<void> {
  await removeGradually(partOf(file), isHurried);
  const small = ["-journal", "-wal", "-shm"].map((suffix) => partOf(file) + suffix);
  for (const path of [...small, partOf(documentPath(file))]) rmSync(path, { force: true });
}

function partOf(path: string): string {
  return `${path}.part`;
}

/** A backup that is being made. */
export interface BackupRun {
  /** Its document. Rejects with the reason if no backup was made. */
  readonly ended: Promise<CopyDocument>;
  /** Breaks it off at its next step. */
  stop(): void;
}

/** Makes a backup in its own thread, and reports its progress. */
export function startBackup(order: BackupOrder, tell: TellProgress = () => {}): BackupRun {
  const stop = newStopFlag();
  const workerData: BackupThreadData = { role: "backup", order, stop };
  const worker = new Worker(threadEntries.backup, { ...threadOptions, workerData });
  return { ended: endOf(worker, tell), stop: () => stopCopy(stop) };
}

async function endOf(worker: Worker, tell: TellProgress): Promise<CopyDocument> {
  const outcome = await new Promise<BackupOutcome>((resolve) => {
    const fail = (message: string): void => resolve({ kind: "failed", message });
    worker.on("message", (message: BackupMessage) => {
      if (message.kind === "progress") tell(message.progress);
      else resolve(message);
    });
    worker.once("error", (error) => fail(messageOf(error)));
    worker.once("exit", () => fail("the backup's thread was lost"));
  });
  if (outcome.kind === "done") return outcome.document;
  throw new Error(outcome.message);
}
