import { setImmediate } from "../clock/timers.ts";

/** Beyond one for each 64 bytes: 32 bodies of 1 MiB in chunks of one byte held up everything for 16 s (measured). */
export const FINE_CHUNKS_MAX = 4096;
const BYTES_PER_CHUNK = 64;

/** Bytes in one buffer that grows: a list of a million chunks of one byte would take a hundred times as much. */
export class GrowingBytes {
  readonly #bytesMax: number;
  #buffer: Buffer = Buffer.alloc(0);
  #length = 0;
  #chunks = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** False when the chunk exceeded the limit: the bytes up to the limit are kept. */
  add(chunk: Buffer): boolean {
    this.#chunks += 1;
    // Nearly every body comes in one piece, which is kept as it is; the next piece moves it to a buffer of our own.
    if (this.#length === 0 && chunk.length <= this.#bytesMax) {
      this.#buffer = chunk;
      this.#length = chunk.length;
      return true;
    }
    const length = Math.min(this.#length + chunk.length, this.#bytesMax);
    if (length > this.#buffer.length) this.#grow(length);
    chunk.copy(this.#buffer, this.#length, 0, length - this.#length);
    const isAll = this.#length + chunk.length === length;
    this.#length = length;
    return isAll;
  }

  /** True when it came in too many small chunks; see {@link FINE_CHUNKS_MAX}. */
  get isTooFine(): boolean {
    return this.#chunks > FINE_CHUNKS_MAX + this.#length / BYTES_PER_CHUNK;
  }

  /** All bytes that were kept so far. */
  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  #grow(length: number): void {
    const size = Math.min(Math.max(length, this.#buffer.length * 2), this.#bytesMax);
    const grown = Buffer.allocUnsafeSlow(size);
    this.#buffer.copy(grown, 0, 0, this.#length);
    this.#buffer = grown;
  }
}

/** Bounds the cost of messages in many small chunks: each takes as long as some hundred bytes. */

// Larger chunks are paid for by their bytes.
const SMALL_BYTES = 512;
/** So many chunks of a message are always taken: others may have used up its sender's share. */
export const UNCOUNTED_CHUNKS = 16;
/** So many more are taken in one turn of the event loop, which takes some milliseconds. */
export const TURN_CHUNKS_MAX = 4096;

/**
 * Limits the small chunks that are taken in one turn of the event loop, and shares them evenly among the senders in
 * that turn. Node parses 64 KiB of a connection in one step, which are 10,900 chunks of one byte, and as much of every
 * other connection before other work.
 */
export class ChunkShares {
  readonly #counts = new Map<string, number>();
  readonly #goRound: (callback: () => void) => void;

  /** `goRound` calls back when the event loop goes round. */
  constructor(goRound: (callback: () => void) => void = setImmediate) {
    this.#goRound = goRound;
  }

  /** Judges the chunks of one message from this sender as they come: false for a chunk that is too many. */
  open(sender: string): (chunk: Uint8Array) => boolean {
    let small = 0;
    return (chunk) =>
      chunk.length >= SMALL_BYTES || ++small <= UNCOUNTED_CHUNKS || this.#take(sender);
  }

  #take(sender: string): boolean {
    if (this.#counts.size === 0) this.#goRound(() => this.#counts.clear());
    const count = (this.#counts.get(sender) ?? 0) + 1;
    this.#counts.set(sender, count);
    return count <= TURN_CHUNKS_MAX / this.#counts.size;
  }
}

const shares = new ChunkShares();

/** A message that Node reads. */
export interface ReadMessage {
  push(chunk: Buffer | null): boolean;
}

/** Calls back before the reader gets the first chunk that is too many, see {@link ChunkShares}. */
export function boundChunks(
  message: ReadMessage,
  { sender, onTooMany }: { readonly sender: string; readonly onTooMany: () => void },
): void {
  const isTaken = shares.open(sender);
  const push = message.push.bind(message);
  message.push = (chunk) => {
    if (chunk !== null && !isTaken(chunk)) onTooMany();
    return push(chunk);
  };
}
