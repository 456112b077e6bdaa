import type { FileChange } from "./disk-change.ts";

/** A file's content as it grows and is written over. */
export class FileContent {
  #buffer: Buffer;
  #size: number;

  constructor(bytes: Buffer = Buffer.alloc(0)) {
    this.#buffer = Buffer.from(bytes);
    this.#size = bytes.length;
  }

  get size(): number {
    return this.#size;
  }

  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#size);
  }

  apply(change: FileChange): void {
    if (change.kind === "written") this.write(change.offset, change.data);
    else this.resize(change.size);
  }

  write(offset: number, data: Buffer): void {
    if (offset + data.length > this.#size) this.resize(offset + data.length);
    data.copy(this.#buffer, offset);
  }

  /** It grows by zeros. */
  resize(size: number): void {
    if (size > this.#buffer.length) {
      const larger = Buffer.alloc(Math.max(size, 2 * this.#buffer.length));
      this.bytes.copy(larger);
      this.#buffer = larger;
    }
    if (size < this.#size) this.#buffer.fill(0, size, this.#size);
    this.#size = size;
  }
}
