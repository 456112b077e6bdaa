/** A kind that stands before the length, and the length, which counts itself. */
const KIND_BYTES = 1;
const LENGTH_BYTES = 4;

/** Finds where messages of PostgreSQL's protocol end in the bytes of one way of a connection. */
export class PostgresMessages {
  /** Bytes of the message under way that are still to come; its head where that is not whole yet. */
  #missing = 0;
  #head = Buffer.alloc(0);
  #kindBytes: number;

  /** The first message of a client, which names its user, has no kind. */
  constructor(way: "to server" | "to client") {
    this.#kindBytes = way === "to server" ? 0 : KIND_BYTES;
  }

  /** Where messages end in the next bytes: each the number of bytes up to there. */
  ends(chunk: Buffer): readonly number[] {
    const ends: number[] = [];
    let at = 0;
    while (at < chunk.length) {
      if (this.#missing === 0) {
        const read = this.#readHead(chunk.subarray(at));
        at += read;
        // A message may be its head alone.
        if (this.#missing === 0 && this.#head.length === 0) ends.push(at);
        continue;
      }
      const taken = Math.min(this.#missing, chunk.length - at);
      at += taken;
      this.#missing -= taken;
      if (this.#missing === 0) ends.push(at);
    }
    return ends;
  }

  /** Reads what is there of a head, and answers how many bytes that was. */
  #readHead(bytes: Buffer): number {
    const whole = this.#kindBytes + LENGTH_BYTES;
    const read = Math.min(whole - this.#head.length, bytes.length);
    this.#head = Buffer.concat([this.#head, bytes.subarray(0, read)]);
    if (this.#head.length < whole) return read;
    this.#missing = this.#head.readInt32BE(this.#kindBytes) - LENGTH_BYTES;
    this.#head = Buffer.alloc(0);
    this.#kindBytes = KIND_BYTES;
    return read;
  }
}
