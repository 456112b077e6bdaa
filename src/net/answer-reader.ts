import { mayBecomeHead, parseAnswerHead, type AnswerHead } from "./answer-head.ts";
import { ChunkedBody } from "./chunked-body.ts";

/** Why bytes are no answer that could be used. */
export type AnswerFault = "malformed" | "oversized" | "switched" | "informational";

const HEAD_BYTES_MAX = 16_384;
/** So much of a body is kept. An answer with more is not read to its end. */
export const EXCERPT_BYTES_MAX = 4096;
// Chunks of one byte make six times as much of a body.
const BODY_BYTES_MAX = 16 * EXCERPT_BYTES_MAX;
// One or two are usual ("100 Continue", "103 Early Hints"); an endless stream of them burns CPU for ever.
const INFORMATIONAL_MAX = 10;
const HEAD_END = Buffer.from("\r\n\r\n");
const [CR, LF] = [0x0d, 0x0a];

/**
 * Reads one answer from the bytes of a connection: informational heads, the head, and the beginning of the body. What
 * it keeps and what it looks at is bounded, whatever the receiver sends.
 *
 *     head → body → complete            an answer with a fault, or a body that is cut, ends the connection
 *       └→ fault      └→ cut
 */
export class AnswerReader {
  #head: AnswerHead | null = null;
  #fault: AnswerFault | null = null;
  /** The beginning of a head whose end has not come. */
  #held: Buffer | null = null;
  #informational = 0;
  #body: Buffer[] = [];
  #bodyBytes = 0;
  /** With the frames of chunks. */
  #framedBytes = 0;
  #chunked: ChunkedBody | null = null;
  #state: "head" | "body" | "complete" | "cut" = "head";

  /** Null until the final head has come, and when there is a fault. */
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

  /** Takes heads up to the final one. Answers what follows it; null when it has not come. */
  #takeHeads(bytes: Buffer): Buffer | null {
    const held = this.#held?.length ?? 0;
    let rest = this.#held === null ? bytes : Buffer.concat([this.#held, bytes]);
    this.#held = null;
    // A line break may have been cut in two.
    let from = Math.max(0, held - HEAD_END.length + 1);
    while (this.#state === "head" && this.#fault === null) {
      rest = withoutEmptyLines(rest);
      const end = rest.indexOf(HEAD_END, from);
      if (end < 0) {
        this.#hold(rest, from);
        return null;
      }
      if (end > HEAD_BYTES_MAX) this.#fault = "oversized";
      else this.#noteHead(parseAnswerHead(rest.toString("latin1", 0, end)));
      rest = rest.subarray(end + HEAD_END.length);
      from = 0;
    }
    return this.#fault === null ? rest : null;
  }

  #hold(beginning: Buffer, from: number): void {
    if (beginning.length > HEAD_BYTES_MAX) this.#fault = "oversized";
    else if (hasBareLineFeed(beginning, from) || !mayBecomeHead(firstLine(beginning)))
      this.#fault = "malformed";
    else this.#held = beginning;
  }

  #noteHead(head: AnswerHead | null): void {
    if (head === null) this.#fault = "malformed";
    else if (head.status === 101) this.#fault = "switched";
    else if (head.status >= 200) this.#begin(head);
    // Node takes the connection for closed then, so others may never see the answer that follows.
    else if (!head.staysOpen) this.#fault = "malformed";
    else if (++this.#informational > INFORMATIONAL_MAX) this.#fault = "informational";
  }

  #begin(head: AnswerHead): void {
    this.#head = head;
    const { framing } = head;
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

// Node's parser takes them before a head, and so it is with servers that send a line break too many.
function withoutEmptyLines(bytes: Buffer): Buffer {
  let at = 0;
  while (bytes[at] === CR && bytes[at + 1] === LF) at += 2;
  return at === 0 ? bytes : bytes.subarray(at);
}

function hasBareLineFeed(bytes: Buffer, from: number): boolean {
  for (let at = bytes.indexOf(LF, from); at >= 0; at = bytes.indexOf(LF, at + 1)) {
    if (bytes[at - 1] !== CR) return true;
  }
  return false;
}

/** With its line break where that has come. */
function firstLine(bytes: Buffer): string {
  const end = bytes.indexOf(LF);
  return bytes.toString("latin1", 0, end < 0 ? bytes.length : end + 1);
}
