import { closeSync, fstatSync, openSync, readSync, realpathSync, statSync } from "node:fs";

import Database from "better-sqlite3";

import { APPLICATION_ID, type Connection } from "./connection.ts";
import { COUNTER_OFFSET, isPageSize, readWal, type Commits, type WalContent } from "./wal-file.ts";

/** Checks of a database file that need no full read: whether it is damaged, or has a -wal that is not its own. */

const MAGIC = "SQLite format 3\0";
const HEADER_BYTES = 100;
const TRIES = 10;

/** The header of the database file, and the size of the file. */
interface FileHeader {
  readonly bytes: Buffer;
  readonly fileBytes: number;
}

/**
 * Refuses a file with damage that shows without reading all of it. Also refuses a file whose -wal belongs to another
 * file, or to another time of this one: SQLite would put its pages into the file, and that destroys it. To be called
 * before this process has the file open.
 */
export function refuseDamagedFile(file: string): void {
  const real = existingPath(file);
  if (real === null) return;
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
  if (wal.kind === "damaged") throw new Error(damagedWal(file));
  if (header.fileBytes === 0 && wal.kind === "commits") {
    throw new Error(foreignWal(file, "the file is empty, and the -wal is not"));
  }
  if (!isOurs(header)) return;
  const fault = headerFault(header);
  if (fault !== null) throw new Error(damagedFile(file, fault));
  const mismatch = wal.kind === "commits" ? walMismatch(header, wal) : null;
  if (mismatch !== null) throw new Error(foreignWal(file, mismatch));
  const pages = pagesWanted(header, wal);
  if (header.fileBytes < pages * pageSizeOf(header)) {
    throw new Error(
      damagedFile(file, `it is shorter than the ${pages} pages that its header counts`),
    );
  }
}

function damagedFile(file: string, fault: string): string {
  return `${file} is damaged (${fault}): move it aside together with its -wal and -shm, and restore a copy in its place`;
}

function foreignWal(file: string, mismatch: string): string {
  return (
    `${file}-wal does not belong to ${file} (${mismatch}): it was left by another file, or the two were copied at different ` +
    "times. If the file is a whole copy, as VACUUM INTO makes them, move its -wal and -shm aside and start again; else " +
    "restore a whole copy"
  );
}

function damagedWal(file: string): string {
  return (
    `${file}-wal is damaged: commits in it cannot be read any more. Restore a copy; or, to go on without what was ` +
    "committed last, keep a copy of the file and its -wal, move the -wal and -shm aside and start again"
  );
}

function existingPath(file: string): string | null {
  return statSync(file, { throwIfNoEntry: false })?.isFile() === true ? realpathSync(file) : null;
}

function readFileHeader(path: string): FileHeader {
  const descriptor = openSync(path, "r");
  try {
    const bytes = Buffer.alloc(HEADER_BYTES);
    readSync(descriptor, bytes, 0, HEADER_BYTES, 0);
    return { bytes, fileBytes: fstatSync(descriptor).size };
  } finally {
    closeSync(descriptor);
  }
}

// A foreign file is refused by its opener, in other words.
function isOurs({ bytes }: FileHeader): boolean {
  return bytes.toString("latin1", 0, 16) === MAGIC && bytes.readUInt32BE(68) === APPLICATION_ID;
}

/** Checks the values that SQLite documents as fixed. */
function headerFault(header: FileHeader): string | null {
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

function pageSizeOf({ bytes }: FileHeader): number {
  const written = bytes.readUInt16BE(16);
  return written === 1 ? 65_536 : written;
}

/**
 * Tells why the -wal cannot be this file's; null when it fits. Commits that write page 1 increment its change counter,
 * and the first commit after the file has taken in all of its -wal is always one of them ({@link BatchRunner}). So if a
 * file has taken in nothing of its -wal, the first counter in the -wal is the file's next one. If it has taken in some
 * of it, the file's counter is one of those in the -wal.
 */
function walMismatch(header: FileHeader, { pageSize, counters }: Commits): string | null {
  if (pageSize !== pageSizeOf(header)) return "their pages differ in size";
  if (header.bytes.readUInt8(19) !== 2) return "the file was made without one";
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

interface SchemaRow {
  readonly type: string;
  readonly name: string;
  readonly table: string;
  readonly sql: string | null;
}

const SCHEMA = 'SELECT type, name, tbl_name AS "table", sql FROM sqlite_schema ORDER BY type, name';

/**
 * Refuses a migrated file whose tables and indexes are not those of `schemaSql`. Tables of other programs are allowed:
 * Litestream makes some.
 */
export function refuseOtherSchema(connection: Connection, schemaSql: string): void {
  const model = new Database(":memory:");
  try {
    model.exec(schemaSql);
    const wanted = model.prepare<[], SchemaRow>(SCHEMA).all();
    const tables = new Set(wanted.map(({ table }) => table));
    const found = connection.prepare<[], SchemaRow>(SCHEMA).all();
    const ours = found.filter(({ table }) => tables.has(table));
    const difference = differenceOf(wanted, ours);
    if (difference === null) return;
    throw new Error(
      damagedFile(connection.name, `${difference} is not as this version of postbackd makes it`),
    );
  } finally {
    model.close();
  }
}

/** The first entry that only one of the two has, or that differs. */
function differenceOf(wanted: readonly SchemaRow[], found: readonly SchemaRow[]): string | null {
  const [first, second] = [texts(wanted), texts(found)];
  for (const [name, text] of first) if (second.get(name) !== text) return name;
  for (const name of second.keys()) if (!first.has(name)) return name;
  return null;
}

function texts(rows: readonly SchemaRow[]): ReadonlyMap<string, string | null> {
  return new Map(rows.map(({ type, name, sql }) => [`${type} ${name}`, normalOf(sql)]));
}

// SQLite keeps comments and white space as they were written, and those of a migrated file differ from a new one's.
function normalOf(sql: string | null): string | null {
  if (sql === null) return null;
  return sql
    .replace(/--.*$/gm, "")
    .replace(/\s+/g, " ")
    .replace(/ ?([(),]) ?/g, "$1");
}
