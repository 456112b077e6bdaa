import { AnswerHead } from "./answer-head.ts";
import { ChunkedBody } from "./chunked-body.ts";

/** Why bytes do not become a response with a status. */
export type AnswerFault = "malformed" | "oversized" | "switched" | "informational";

const HEAD_BYTES_MAX = 16_384;
/** So much of a body is kept. An answer with more is not read to its end. */
export const EXCERPT_BYTES_MAX = 4096;
// Chunks of one byte make six times as much of a body.
const BODY_BYTES_MAX = 16 * EXCERPT_BYTES_MAX;
// One or two are usual ("100 Continue", "103 Early Hints"); an endless stream of them burns CPU for ever.
const INFORMATIONAL_MAX = 10;
const VERSION = "HTTP/1.";

/**
 * Reads one response from the bytes of a connection: informational heads, the head, and the beginning of the body. What
 * it keeps and what it looks at is bounded, whatever the receiver sends.
 *
 *     status line → fields → body → complete     faults come before a status that counts;
 *       └→ fault      └────────┴→ cut            a response that is cut ends the connection
 */
export class AnswerReader {
  /** The final head. */
  #head: AnswerHead | null = null;
  /** The head whose fields are read now: the final or an informational one. */
  #openHead: AnswerHead | null = null;
  #fault: AnswerFault | null = null;
  /** The beginning of a line whose end has not come. */
  #line = "";
  /** So many bytes of the head were taken. */
  #headBytes = 0;
  #informational = 0;
  /** Node's parser would have refused something before the final head. */
  #hasFaultBefore = false;
  #body: Buffer[] = [];
  #bodyBytes = 0;
  /** With the frames of chunks. */
  #framedBytes = 0;
  #chunked: ChunkedBody | null = null;
  #state: "head" | "body" | "complete" | "cut" = "head";

  /** Null until the final status line has come. */
  get head(): AnswerHead | null {
    return this.#head;
  }

  get fault(): AnswerFault | null {
    return this.#fault;
  }

  /** The body ended by itself, and nothing came behind it. */
  get isComplete(): boolean {
    return this.#state === "complete";
  }

  /** Nothing that could still come is wanted. */
  get isOver(): boolean {
    return this.#fault !== null || this.#state === "complete" || this.#state === "cut";
  }

  /** The beginning of the body as text. */
  excerpt(): string {
    const [first] = this.#body;
    if (first === undefined) return "";
    const body = this.#body.length === 1 ? first : Buffer.concat(this.#body);
    if (body.length <= EXCERPT_BYTES_MAX) return body.toString("utf8");
    // `stream` leaves out a character that the limit cuts in two, instead of showing it as broken.
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    return decoder.decode(body.subarray(0, EXCERPT_BYTES_MAX), { stream: true });
  }

  /** Takes the next bytes. Once it is over it takes none. */
  take(bytes: Buffer): void {
    if (this.isOver) return;
    const rest = this.#state === "head" ? this.#takeHeads(bytes) : bytes;
    if (rest !== null && rest.length > 0) this.#takeBody(rest);
  }

  /** Takes heads up to the end of the final one. Returns what follows it; null if its end has not come. */
  #takeHeads(bytes: Buffer): Buffer | null {
    const held = this.#line.length;
    const text = this.#line + bytes.toString("latin1");
    let at = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", at)) {
      this.#headBytes += end + 1 - at;
      if (this.#headBytes > HEAD_BYTES_MAX) break;
      this.#takeLine(text.slice(at, end));
      at = end + 1;
      if (this.#fault !== null) return null;
      if (this.#state !== "head") return bytes.subarray(at - held);
    }
    this.#line = text.slice(at);
    if (this.#headBytes + this.#line.length > HEAD_BYTES_MAX) this.#cutHead();
    else if (this.#openHead === null && !mayBeStatusLine(this.#line)) this.#fault = "malformed";
    return null;
  }

  #takeLine(line: string): void {
    const head = this.#openHead;
    const isEmpty = line === "\r" || line === "";
    if (head !== null && !isEmpty) head.take(line);
    else if (head !== null) this.#endHead(head, line);
    else if (!isEmpty) this.#takeStatusLine(line);
    // Servers that send a line break too many: Node's parser takes empty lines before a head as well.
    else this.#noteEnd(line === "\r");
  }

  #takeStatusLine(line: string): void {
    const head = AnswerHead.begin(line, this.#hasFaultBefore);
    this.#openHead = head;
    if (head === null) this.#fault = "malformed";
    else if (head.status >= 200) this.#head = head;
    else if (head.status === 101) this.#fault = "switched";
    else if (++this.#informational > INFORMATIONAL_MAX) this.#fault = "informational";
  }

  #endHead(head: AnswerHead, line: string): void {
    head.end(line);
    this.#openHead = null;
    if (head === this.#head) this.#beginBody(head);
    // Node takes the connection for closed after an informational response that says so.
    else this.#noteEnd(head.staysOpen);
  }

  #noteEnd(isSound: boolean): void {
    this.#headBytes = 0;
    if (!isSound) this.#hasFaultBefore = true;
  }

  #cutHead(): void {
    if (this.#head === null) this.#fault = "oversized";
    else this.#state = "cut";
  }

  #beginBody({ framing }: AnswerHead): void {
    const isEmpty = framing.kind === "none" || (framing.kind === "length" && framing.bytes === 0);
    this.#state = isEmpty ? "complete" : "body";
    if (framing.kind === "chunked") this.#chunked = new ChunkedBody();
  }

  #takeBody(bytes: Buffer): void {
    const taken = this.#state === "body" ? this.#takeFramed(bytes) : 0;
    this.#framedBytes += taken;
    const isTooMuch = this.#bodyBytes > EXCERPT_BYTES_MAX || this.#framedBytes > BODY_BYTES_MAX;
    // Bytes behind the end would be taken for the answer to the next request.
    if (isTooMuch || taken < bytes.length) this.#state = "cut";
  }

  /** Answers how many of the bytes belong to the body. */
  #takeFramed(bytes: Buffer): number {
    if (this.#chunked !== null) return this.#takeChunks(bytes, this.#chunked);
    const framing = this.#head?.framing;
    const left = framing?.kind === "length" ? framing.bytes - this.#bodyBytes : Infinity;
    const data = bytes.length > left ? bytes.subarray(0, left) : bytes;
    this.#keep(data);
    if (data.length === left) this.#state = "complete";
    return data.length;
  }

  #takeChunks(bytes: Buffer, chunked: ChunkedBody): number {
    const taken = chunked.take(bytes, (data) => this.#keep(data));
    if (chunked.state === "complete") this.#state = "complete";
    if (chunked.state === "malformed") this.#state = "cut";
    return taken;
  }

  #keep(data: Buffer): void {
    if (this.#bodyBytes <= EXCERPT_BYTES_MAX) this.#body.push(data);
    this.#bodyBytes += data.length;
  }
}

/** False once the beginning of a line can no longer become a status line or an empty line. */
function mayBeStatusLine(beginning: string): boolean {
  return beginning === "\r" || VERSION.startsWith(beginning.slice(0, VERSION.length));
}
