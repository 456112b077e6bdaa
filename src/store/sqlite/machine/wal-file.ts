import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import { endianness } from "node:os";

import { codeOf } from "../../../domain/error.ts";
import { openDatabase } from "./connection.ts";

/** The content that SQLite would take from a -wal file. */
export type WalContent =
  /** The file does not exist, or has no commit. */
  | { readonly kind: "none" }
  /** A commit that was on disk can no longer be read. SQLite would take that for the end of the file. */
  | { readonly kind: "damaged" }
  | Commits;

export interface Commits {
  readonly kind: "commits";
  readonly pageSize: number;
  /** The change counters in the first and the last copy of page 1; null without a copy. */
  readonly counters: { readonly first: number; readonly last: number } | null;
  /** The fewest pages that the database had after any of the commits. */
  readonly pagesMin: number;
}

/** The offset of the file change counter in page 1. */
export const COUNTER_OFFSET = 24;

const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const MAGIC = 0x377f0682;

/**
 * Reads a -wal as SQLite does when it recovers: from its beginning to the first frame that does not fit. Null when
 * another process restarted the file meanwhile. The parts of the database that `read` reads match: pages that were
 * copied into it are in the frames. To be called before this process has the database open, because closing a file
 * gives up the locks that the process has on it.
 */
export function readWal<Read>(
  path: string,
  read: () => Read,
): { readonly wal: WalContent; readonly read: Read } | null {
  const descriptor = openExisting(path);
  if (descriptor === null) return { wal: { kind: "none" }, read: read() };
  try {
    const header = readHeader(descriptor);
    const answer = read();
    const wal = header === null ? { kind: "none" as const } : readFrames(descriptor, header);
    const after = readHeader(descriptor);
    const isSame = header === null ? after === null : after?.equals(header) === true;
    return isSame ? { wal, read: answer } : null;
  } finally {
    closeSync(descriptor);
  }
}

function openExisting(path: string): number | null {
  try {
    // Without O_NONBLOCK the open of a FIFO waits for a writer.
    const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    if (fstatSync(descriptor).isFile()) return descriptor;
    closeSync(descriptor);
    throw new Error(`${path} is not a file: remove it, and start again`);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
}

/** Null when the file holds no frame, or was never written: then no commit depends on it. */
function readHeader(descriptor: number): Buffer | null {
  if (fstatSync(descriptor).size < HEADER_BYTES + FRAME_HEADER_BYTES) return null;
  const header = Buffer.alloc(HEADER_BYTES);
  readSync(descriptor, header, 0, HEADER_BYTES, 0);
  return header.every((byte) => byte === 0) ? null : header;
}

function readFrames(descriptor: number, header: Buffer): WalContent {
  const magic = header.readUInt32BE(0);
  const pageSize = header.readUInt32BE(8);
  if ((magic & ~1) !== MAGIC || !isPageSize(pageSize)) return { kind: "damaged" };
  const sum = new RunningSum((magic & 1) === 1 ? "BE" : "LE");
  sum.add(header.subarray(0, 24));
  // The header was on disk before the first frame was written.
  if (!sum.equals(header.subarray(24))) return { kind: "damaged" };
  const frames = new Frames(descriptor, { salts: header.subarray(16, 24), pageSize });
  return readCommits(frames, { sum, pageSize });
}

/** True for a valid size of SQLite's pages. */
export function isPageSize(bytes: number): boolean {
  return bytes >= 512 && bytes <= 65_536 && Number.isInteger(Math.log2(bytes));
}

function readCommits(
  frames: Frames,
  { sum, pageSize }: { readonly sum: RunningSum; readonly pageSize: number },
): WalContent {
  let pagesMin = Number.POSITIVE_INFINITY;
  let first: number | null = null;
  let last: number | null = null;
  // A transaction has not happened until a commit ends it.
  let counter: number | null = null;
  for (let frame = frames.next(); frame !== null; frame = frames.next()) {
    if (!frame.isNext(sum)) {
      if (hasLaterCommit(frames, { broken: frame, sum })) return { kind: "damaged" };
      break;
    }
    if (frame.page === 1) counter = frame.counter;
    if (frame.pagesAfter === 0) continue;
    pagesMin = Math.min(pagesMin, frame.pagesAfter);
    first ??= counter;
    last = counter ?? last;
    counter = null;
  }
  if (pagesMin === Number.POSITIVE_INFINITY) return { kind: "none" };
  const counters = first === null || last === null ? null : { first, last };
  return { kind: "commits", pageSize, counters, pagesMin };
}

/**
 * True when something was written after a commit that comes after the broken frame. Every commit is on disk before
 * anything is written after it, so the broken frame was whole once. A power cut tears only the last commit; and what a
 * failed commit left there does not follow a commit.
 */
function hasLaterCommit(
  frames: Frames,
  { broken, sum }: { readonly broken: Frame; readonly sum: RunningSum },
): boolean {
  let isBehindCommit = broken.pagesAfter !== 0;
  broken.setSum(sum);
  for (let frame = frames.next(); frame !== null; frame = frames.next()) {
    if (frame.isNext(sum) && isBehindCommit) return true;
    isBehindCommit = frame.pagesAfter !== 0;
    frame.setSum(sum);
  }
  return false;
}

/** The frames that were written since the file restarted, whether or not they fit. */
class Frames {
  readonly #descriptor: number;
  readonly #salts: Buffer;
  readonly #buffer: Buffer;
  #at = HEADER_BYTES;

  constructor(
    descriptor: number,
    { salts, pageSize }: { readonly salts: Buffer; readonly pageSize: number },
  ) {
    this.#descriptor = descriptor;
    this.#salts = salts;
    this.#buffer = Buffer.alloc(FRAME_HEADER_BYTES + pageSize);
  }

  /** Null at the end. A frame is valid until the next one is asked for. */
  next(): Frame | null {
    const buffer = this.#buffer;
    if (readSync(this.#descriptor, buffer, 0, buffer.length, this.#at) < buffer.length) return null;
    if (!buffer.subarray(8, 16).equals(this.#salts)) return null;
    this.#at += buffer.length;
    return new Frame(buffer);
  }
}

class Frame {
  readonly #buffer: Buffer;
  readonly page: number;
  /** How many pages the database has after the commit that this frame ends; 0 in all other frames. */
  readonly pagesAfter: number;

  constructor(buffer: Buffer) {
    this.#buffer = buffer;
    this.page = buffer.readUInt32BE(0);
    this.pagesAfter = buffer.readUInt32BE(4);
  }

  /** The change counter in a copy of page 1. */
  get counter(): number {
    return this.#buffer.readUInt32BE(FRAME_HEADER_BYTES + COUNTER_OFFSET);
  }

  /** Adds the frame to the sum of all frames before it, and returns true if the frame was written with that sum. */
  isNext(sum: RunningSum): boolean {
    sum.add(this.#buffer.subarray(0, 8));
    sum.add(this.#buffer.subarray(FRAME_HEADER_BYTES));
    return sum.equals(this.#buffer.subarray(16, 24));
  }

  /** Continues from the sum that the frame was written with. */
  setSum(sum: RunningSum): void {
    sum.set(this.#buffer.subarray(16, 24));
  }
}

/** SQLite's checksum of a -wal, which runs from the header through all frames. */
class RunningSum {
  readonly #isSwapped: boolean;
  #first = 0;
  #second = 0;

  constructor(order: "BE" | "LE") {
    this.#isSwapped = order !== endianness();
  }

  add(bytes: Buffer): void {
    // Reads words at their own boundaries, in this machine's order: reading them one by one takes ten times as long.
    const copy = Uint8Array.prototype.slice.call(bytes);
    if (this.#isSwapped) Buffer.from(copy.buffer).swap32();
    const words = new Uint32Array(copy.buffer);
    let [first, second] = [this.#first, this.#second];
    for (let i = 0; i + 1 < words.length; i += 2) {
      first = (first + (words[i] ?? 0) + second) | 0;
      second = (second + (words[i + 1] ?? 0) + first) | 0;
    }
    this.#first = first;
    this.#second = second;
  }

  equals(written: Buffer): boolean {
    return written.readInt32BE(0) === this.#first && written.readInt32BE(4) === this.#second;
  }

  set(written: Buffer): void {
    this.#first = written.readInt32BE(0);
    this.#second = written.readInt32BE(4);
  }
}

const TRIES = 20;
const TRY_MS = 250;

/**
 * Copies the content of the WAL into the file and empties it: pages with data that has been erased since stay there
 * until others take their place. A daemon may go on meanwhile. False if a connection was reading from the WAL all the
 * time. Occupies its thread for some seconds: for a process that does nothing else.
 */
export function clearWal(file: string): boolean {
  const connection = openDatabase(file, { fileMustExist: true, timeout: TRY_MS });
  try {
    for (let left = TRIES; left > 0; left--) {
      // The first column is 1 if another connection blocked it.
      if (connection.pragma("wal_checkpoint(TRUNCATE)", { simple: true }) === 0) return true;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, TRY_MS);
    }
    return false;
  } finally {
    connection.close();
  }
}
