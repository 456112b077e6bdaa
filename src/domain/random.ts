import { createHash, randomFillSync } from "node:crypto";

type Fill = (bytes: Uint8Array) => void;

const fillSecurely: Fill = (bytes) => void randomFillSync(bytes);
let fill = fillSecurely;

/** So many bytes that nobody can guess; while a seed is in force they are the same each time. */
export function randomBytes(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  fill(bytes);
  return bytes;
}

const POOL_BYTES = 4096;

/** Random bytes out of draws of 4 KiB: a draw for each id costs more than all the rest of it. */
export class RandomPool {
  readonly #bytes = Buffer.alloc(POOL_BYTES);
  #used = POOL_BYTES;

  /** So many random bytes, at most 4 KiB; to be used before the next are taken. */
  take(length: number): Buffer {
    if (this.#used + length > POOL_BYTES) {
      fill(this.#bytes);
      this.#used = 0;
    }
    this.#used += length;
    return this.#bytes.subarray(this.#used - length, this.#used);
  }
}

/**
 * Makes everything random in this process follow from a seed, until the function that it answers is called, or another
 * seed takes its place. For tests alone: whoever knows the seed knows all keys.
 */
export function seedRandom(seed: number): () => void {
  let block = 0;
  let left: Uint8Array = new Uint8Array();
  const fillBySeed: Fill = (bytes) => {
    for (let i = 0; i < bytes.length;) {
      if (left.length === 0) left = createHash("sha256").update(`${seed} ${block++}`).digest();
      const part = left.subarray(0, bytes.length - i);
      bytes.set(part, i);
      i += part.length;
      left = left.subarray(part.length);
    }
  };
  fill = fillBySeed;
  return () => {
    if (fill === fillBySeed) fill = fillSecurely;
  };
}
