import { createHash, randomFillSync } from "node:crypto";

type Fill = (bytes: Uint8Array) => void;

const fillSecurely: Fill = (bytes) => void randomFillSync(bytes);
let fill = fillSecurely;

/** Fills bytes that nobody can guess; while a seed is in force they are the same each time. */
export function fillRandom(bytes: Uint8Array): void {
  fill(bytes);
}

/** So many random bytes. */
export function randomBytes(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  fill(bytes);
  return bytes;
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
