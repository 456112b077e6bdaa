import { createHash, hash, randomFillSync } from "node:crypto";

type Fill = (bytes: Uint8Array) => void;

const fillSecurely: Fill = (bytes) => void randomFillSync(bytes);
let fill = fillSecurely;

/** That many unpredictable bytes; with a seed they are the same each time. */
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

/** Makes all randomness follow from a seed until the returned function is called. For tests: it reveals all keys. */
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

const COUNTER_MAX = 0xfff;
// Counters start in the lower half, so that 2,048 ids fit into a millisecond before it must be borrowed from the next.
const COUNTER_START_MAX = 0x7ff;
const BYTES_PER_ID = 10;

/**
 * Mints lower-case UUIDv7 strings (RFC 9562 §5.7) that sort in the order in which they were minted, also within one
 * millisecond: the 12 bits of `rand_a` are a counter with a random start (§6.2 method 1). When the counter runs out, or
 * the clock steps back, the time part continues from the last id instead.
 */
export class IdGenerator {
  #timeMs = -1;
  #timeText = "";
  #counter = 0;
  readonly #pool = new RandomPool();

  next(nowMs: number): string {
    if (nowMs > this.#timeMs) {
      this.#timeMs = nowMs;
      this.#counter = -1;
    } else if (this.#counter === COUNTER_MAX) {
      this.#timeMs++;
      this.#counter = -1;
    }
    const random = this.#pool.take(BYTES_PER_ID);
    if (this.#counter === -1) {
      this.#counter = random.readUInt16BE(0) & COUNTER_START_MAX;
      this.#timeText = formatTime(this.#timeMs);
    } else this.#counter++;
    return this.#timeText + formatTail(this.#counter, random);
  }
}

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** True for a lower-case UUIDv7, the only form of postbackd's ids. */
export function isId(text: string): boolean {
  return UUID_V7.test(text);
}

/** The time when an id was minted, in milliseconds since the epoch. The id must satisfy {@link isId}. */
export function idTimeMs(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

// The first 48 bits, equal for all ids of a millisecond.
function formatTime(timeMs: number): string {
  const time = timeMs.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-`;
}

function formatTail(counter: number, random: Buffer): string {
  const versioned = (0x7000 | counter).toString(16);
  const variant = (0x8000 | (random.readUInt16BE(2) & 0x3fff)).toString(16);
  return `${versioned}-${variant}-${random.toString("hex", 4, 10)}`;
}

const LEASE_ID_BYTES = 16;
const leasePool = new RandomPool();

/** Mints a lease's id: opaque to workers, and impossible to guess. */
export function newLeaseId(): string {
  return leasePool.take(LEASE_ID_BYTES).toString("base64url");
}

/** A strong entity tag: equal for equal bytes in all releases; a text is hashed as UTF-8. */
export function entityTag(content: string | Uint8Array): string {
  return `"${hash("sha256", content, "base64url").slice(0, 27)}"`;
}
