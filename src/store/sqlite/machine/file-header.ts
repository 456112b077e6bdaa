import { closeSync, fstatSync, openSync, readSync } from "node:fs";

import { APPLICATION_ID } from "./connection.ts";
import { isPageSize } from "./wal-file.ts";

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
