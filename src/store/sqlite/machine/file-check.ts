import {
  closeSync,
  existsSync,
  fstatSync,
  openSync,
  readSync,
  realpathSync,
  statSync,
} from "node:fs";
import { isMainThread } from "node:worker_threads";

import { APPLICATION_ID, type Connection, giveWay } from "./connection.ts";
import { followLinks } from "./open-files.ts";
import { COUNTER_OFFSET, type Commits, type WalContent, isPageSize, readWal } from "./wal-file.ts";

/** Checks of a database file that need no full read: whether it is damaged, or has a -wal that is not its own. */

/** The file, or its -wal, is damaged or not the right one; the message has the remedy. */
export class DamageError extends Error {
  override readonly name = "DamageError" as const;
}

const TRIES = 10;

/**
 * Refuses a file with damage that shows without reading all of it. Also refuses a file whose -wal belongs to another
 * file, or to another time of this one: SQLite would put its pages into the file, and that destroys it. To be called
 * before this process has the file open.
 */
export function refuseDamagedFile(file: string): void {
  const real = existingPath(file);
  if (real === null) {
    const place = placeOf(file);
    if (existsSync(restorePart(place))) throw new DamageError(brokenRestore(file));
    // SQLite would make an empty file, and remove the -wal for that.
    if (readWal(`${place}-wal`, () => null)?.wal.kind === "commits") {
      throw new DamageError(missingFile(file));
    }
    return;
  }
  // While another process serves the file, the -wal may restart between two looks. And a frame that is read half
  // written, with a commit behind it by then, looks like damage. Then both are looked at again: real damage stays.
  for (let triesLeft = TRIES; triesLeft > 0; triesLeft--) {
    const found = readWal(`${real}-wal`, () => readFileHeader(real));
    if (found === null || (found.wal.kind === "damaged" && triesLeft > 1)) continue;
    refuse(file, { header: found.read, wal: found.wal });
    return;
  }
}

function refuse(
  file: string,
  { header, wal }: { readonly header: FileHeader; readonly wal: WalContent },
): void {
  if (wal.kind === "damaged") throw new DamageError(damagedWal(file));
  if (header.fileBytes === 0 && wal.kind === "commits") {
    throw new DamageError(foreignWal(file, "the file is empty, and the -wal is not"));
  }
  if (!isOurs(header)) return;
  const fault = headerFault(header);
  if (fault !== null) throw new DamageError(damagedFile(file, fault));
  const mismatch = wal.kind === "commits" ? walMismatch(header, wal) : null;
  if (mismatch !== null) throw new DamageError(foreignWal(file, mismatch));
  const pages = pagesWanted(header, wal);
  if (header.fileBytes < pages * pageSizeOf(header)) {
    throw new DamageError(
      damagedFile(file, `it is shorter than the ${pages} pages that its header counts`),
    );
  }
}

export function damagedFile(file: string, fault: string): string {
  return `${file} is damaged (${fault}): put a copy in its place with 'postbackd backup restore COPY', which sets it aside`;
}

function foreignWal(file: string, mismatch: string): string {
  return (
    `${file}-wal does not belong to ${file} (${mismatch}): it was left by another file, or the two were copied at different ` +
    "times. If the file is a whole copy, as 'postbackd backup create' makes them, move its -wal and -shm aside and start " +
    "again; else put one in its place with 'postbackd backup restore COPY'"
  );
}

function damagedWal(file: string): string {
  return (
    `${file}-wal is damaged: commits in it cannot be read any more. Put a copy in its place with 'postbackd backup restore ` +
    "COPY'; or, to go on without what was committed last, keep a copy of the file and its -wal, move the -wal and -shm " +
    "aside and start again"
  );
}

/** The name of a copy until it takes the place of a database, which has been set aside at that moment. */
export function restorePart(file: string): string {
  return `${file}.restore`;
}

function brokenRestore(file: string): string {
  return `${file} is missing, because a restore was broken off: run 'postbackd backup restore COPY' again`;
}

function missingFile(file: string): string {
  return (
    `${file} is missing, and ${file}-wal holds commits of it: put the file back that belongs to it, put a copy in its place ` +
    "with 'postbackd backup restore COPY', or move the -wal aside to start with an empty database"
  );
}

/**
 * The paths of a database and its companion files: SQLite follows symbolic links, also to a missing file. Throws for
 * links that lead in a circle.
 */
export function placeOf(file: string): string {
  if (existsSync(file)) return realpathSync(file);
  const { end } = followLinks(file);
  if (end === null) throw new Error(`${file} is a symbolic link that leads to no file`);
  return end;
}

function existingPath(file: string): string | null {
  return statSync(file, { throwIfNoEntry: false })?.isFile() === true ? realpathSync(file) : null;
}

/**
 * Returns why the -wal cannot be this file's; null if it fits. Commits that write page 1 increment its change counter,
 * and the first commit after the file has taken in all of its -wal is always one of them ({@link BatchRunner}). So if a
 * file has taken in nothing of its -wal, the first counter in the -wal is the file's next one. If the file has some of
 * the -wal, its counter is one of the counters in the -wal.
 */
function walMismatch(header: FileHeader, { pageSize, counters }: Commits): string | null {
  if (pageSize !== pageSizeOf(header)) return "their pages differ in size";
  if (!isWalHeader(header)) return "the file was made without one";
  if (counters === null) return null;
  const counter = header.bytes.readUInt32BE(COUNTER_OFFSET);
  const isOfIts = counter >= counters.first && counter <= counters.last;
  if (counter === counters.first - 1 || isOfIts) return null;
  return `the file is at change ${counter}, the -wal goes from ${counters.first} to ${counters.last}`;
}

/** The number of pages that the file itself must hold; 0 when that is not known. */
function pagesWanted({ bytes }: FileHeader, wal: WalContent): number {
  const counter = bytes.readUInt32BE(COUNTER_OFFSET);
  const pages = bytes.readUInt32BE(28);
  // Only then is the number of pages up to date.
  if (counter !== bytes.readUInt32BE(92)) return 0;
  if (wal.kind !== "commits") return pages;
  // Page 1 is copied first: as long as the old one is there, nothing else was copied. But the end may be cut off
  // already.
  return counter + 1 === wal.counters?.first ? Math.min(pages, wal.pagesMin) : 0;
}

const MAGIC = "SQLite format 3\0";
const HEADER_BYTES = 100;

/** The header of a database file, and the size of the file. */
export interface FileHeader {
  readonly bytes: Buffer;
  readonly fileBytes: number;
}

/** Reads as much of the header as there is. To be called before this process has the file open. */
export function readFileHeader(path: string): FileHeader {
  const descriptor = openSync(path, "r");
  try {
    const bytes = Buffer.alloc(HEADER_BYTES);
    readSync(descriptor, bytes, 0, HEADER_BYTES, 0);
    return { bytes, fileBytes: fstatSync(descriptor).size };
  } finally {
    closeSync(descriptor);
  }
}

/** True for a file that SQLite made. */
export function isDatabase({ bytes }: FileHeader): boolean {
  return bytes.toString("latin1", 0, 16) === MAGIC;
}

/** True for a database that postbackd made. A foreign file is refused by its opener, in other words. */
export function isOurs(header: FileHeader): boolean {
  return isDatabase(header) && header.bytes.readUInt32BE(68) === APPLICATION_ID;
}

/** Checks the values that SQLite documents as fixed. */
export function headerFault(header: FileHeader): string | null {
  const { bytes } = header;
  if (!isPageSize(pageSizeOf(header))) return "its header names no page size";
  const versions = [bytes.readUInt8(18), bytes.readUInt8(19)];
  const isKnown = versions.every((version) => version === 1 || version === 2);
  const fractions = [bytes.readUInt8(21), bytes.readUInt8(22), bytes.readUInt8(23)];
  // UTF-8; 0 before the first table.
  const isEncoded = bytes.readUInt32BE(56) <= 1;
  const isFixed = fractions.join() === "64,32,32" && bytes.readUInt8(20) === 0;
  return isKnown && isFixed && isEncoded ? null : "its header holds what no file has";
}

/** The size of the pages in bytes. */
export function pageSizeOf({ bytes }: FileHeader): number {
  const written = bytes.readUInt16BE(16);
  return written === 1 ? 65_536 : written;
}

/** True for a file that SQLite opens with a -wal and a -shm beside it. */
export function isWalHeader({ bytes }: FileHeader): boolean {
  return bytes.readUInt8(19) === 2;
}

/** How many pages the header counts; null when it does not say, as files of very old versions. */
export function pagesCounted({ bytes }: FileHeader): number | null {
  // Only when this counter is the file's own is the number of pages up to date.
  return bytes.readUInt32BE(24) === bytes.readUInt32BE(92) ? bytes.readUInt32BE(28) : null;
}

/** Reads that look for damage, table by table; see {@link FileGuard.check}. */
export function tableCheckReads(connection: Connection) {
  const list = connection
    .prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    .pluck();
  return {
    /** The tables that {@link checkTable} accepts. */
    listTables: (): readonly string[] => ["sqlite_schema", ...list.all()],
    /** Describes a fault of a table and its indexes, in SQLite's words; null without a fault. */
    checkTable(table: string): string | null {
      // A thread that checks tables does nothing else.
      if (!isMainThread) giveWay();
      const name = table.replaceAll("'", "''");
      const found = connection.pragma(`quick_check('${name}')`, { simple: true });
      return found === "ok" ? null : String(found);
    },
  };
}
