// A chunk's line is its size and perhaps an extension; the trailer is whole lines. No receiver needs more than this.
const LINE_BYTES_MAX = 4096;
const TRAILER_LINES_MAX = 100;
const LF = 0x0a;
const TOKEN = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]";
const TEXT = "\\t\\x20-\\x7e\\x80-\\xff";
// Names and values may be empty and have no space around them, as Node's own parser has it.
const QUOTED = `"(?:(?!["\\\\])[${TEXT}]|\\\\[${TEXT}])*"`;
const EXTENSION = `;(?!\\r)${TOKEN}*(?:=${TOKEN}*(?:${QUOTED})?)?`;
const CHUNK_LINE = new RegExp(`^([0-9A-Fa-f]{1,8})(?:${EXTENSION})*\\r\\n$`);
const TRAILER_LINE = new RegExp(`^${TOKEN}+:[${TEXT}]*\\r\\n$`);

type State = "size" | "data" | "data end" | "trailer" | "complete" | "malformed";

/**
 * Takes a chunked body apart (RFC 9112 §7.1).
 *
 *     size → data → end of the data → size → … → size 0 → trailer → complete
 */
export class ChunkedBody {
  #state: State = "size";
  /** The beginning of a line whose end has not come. */
  #line = "";
  #left = 0;
  #trailerLines = 0;

  get state(): "open" | "complete" | "malformed" {
    return this.#state === "complete" || this.#state === "malformed" ? this.#state : "open";
  }

  /** Takes bytes, hands the data in them to `onData`, and answers how many of them belong to the body. */
  take(bytes: Buffer, onData: (data: Buffer) => void): number {
    let at = 0;
    while (at < bytes.length && this.state === "open") {
      at += this.#state === "data" ? this.#takeData(bytes, at, onData) : this.#takeLine(bytes, at);
    }
    return at;
  }

  #takeData(bytes: Buffer, at: number, onData: (data: Buffer) => void): number {
    const data = bytes.subarray(at, at + this.#left);
    this.#left -= data.length;
    if (this.#left === 0) this.#state = "data end";
    onData(data);
    return data.length;
  }

  #takeLine(bytes: Buffer, at: number): number {
    const end = bytes.indexOf(LF, at);
    const taken = (end < 0 ? bytes.length : end + 1) - at;
    if (this.#line.length + taken > LINE_BYTES_MAX) {
      this.#state = "malformed";
      return taken;
    }
    this.#line += bytes.toString("latin1", at, at + taken);
    if (end >= 0) {
      this.#state = this.#afterLine(this.#line);
      this.#line = "";
    }
    return taken;
  }

  #afterLine(line: string): State {
    if (this.#state === "size") return this.#afterSize(CHUNK_LINE.exec(line)?.[1]);
    if (this.#state === "data end") return line === "\r\n" ? "size" : "malformed";
    if (line === "\r\n") return "complete";
    this.#trailerLines += 1;
    const isTrailer = TRAILER_LINE.test(line) && this.#trailerLines <= TRAILER_LINES_MAX;
    return isTrailer ? "trailer" : "malformed";
  }

  #afterSize(size: string | undefined): State {
    if (size === undefined) return "malformed";
    this.#left = Number.parseInt(size, 16);
    return this.#left === 0 ? "trailer" : "data";
  }
}
