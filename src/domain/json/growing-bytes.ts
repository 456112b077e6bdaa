/**
 * More chunks than this, beyond one for each 64 bytes, are too many: each costs as much as some hundred bytes, and 32
 * bodies of 1 MiB in chunks of one byte held up everything for 16 s (measured).
 */
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
