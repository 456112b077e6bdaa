/** Why bytes do not become a response with a status. */
export type AnswerFault = "malformed" | "oversized" | "switched" | "informational";

const HEAD_BYTES_MAX = 16_384;
/** So much of a body is kept. A longer response is not read to its end. */
const EXCERPT_BYTES_MAX = 4096;
// Chunks of one byte make six times as much of a body.
const BODY_BYTES_MAX = 16 * EXCERPT_BYTES_MAX;
// One or two are usual ("100 Continue", "103 Early Hints"); an endless stream of them burns CPU for ever.
const INFORMATIONAL_MAX = 10;
const VERSION = "HTTP/1.";

/**
 * Reads one response from the bytes of a connection: informational heads, the head, and the beginning of the body. Its
 * memory and its work are bounded for any response.
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

  /** Returns how many of the bytes belong to the body. */
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

/** How the end of a response's body is found (RFC 9112 §6.3). */
type BodyFraming =
  | { readonly kind: "none" }
  | { readonly kind: "length"; readonly bytes: number }
  | { readonly kind: "chunked" }
  /** The body ends with the connection. */
  | { readonly kind: "close" };

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*)?(\r?)$/;
// A name is a token, right before its colon; a folded line begins with a space and is not a field (RFC 9112 §5).
const FIELD_LINE = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([\t\x20-\x7e\x80-\xff]*)\r?$/;
// Several equal lengths count as one (RFC 9110 §8.6).
const LENGTHS = /^([0-9]{1,15})(?:[\t ]*,[\t ]*\1)*$/;
// An HTTP date is 29 characters.
const RETRY_AFTER = /^[\x20-\x7e]{1,100}$/;

/**
 * The head of a response, as far as an attempt needs it, read line by line. The status line alone decides the attempt
 * (webhooks.md). A fault in a later line only closes the connection: two readers could see two ends of the response.
 * Faults are what Node's parser refuses: a line that ends with LF alone, a folded line, two lengths, a length and chunks.
 */
class AnswerHead {
  readonly status: number;
  /** `close` until {@link end} was called. */
  framing: BodyFraming = { kind: "close" };
  /** True if the connection can carry another request after the body. False until {@link end} was called. */
  staysOpen = false;
  /** The first `Retry-After` as sent; null if none came that is fit to be shown. */
  retryAfter: string | null = null;
  readonly #isHttp11: boolean;
  #isSound: boolean;
  /** The values of a header that came more than once are joined by commas (RFC 9110 §5.3). */
  #lengths: string | null = null;
  #codings = "";
  #connection = "";
  #keepAlive = "";

  private constructor(status: number, is: { readonly http11: boolean; readonly sound: boolean }) {
    this.status = status;
    this.#isHttp11 = is.http11;
    this.#isSound = is.sound;
  }

  /** Begins a head with its first line, as Latin-1 without its LF; null if that is not a status line of HTTP/1. */
  static begin(line: string, isAfterFault: boolean): AnswerHead | null {
    const [, minor, status, lineEnd] = STATUS_LINE.exec(line) ?? [];
    if (status === undefined) return null;
    const isSound = !isAfterFault && lineEnd === "\r";
    return new AnswerHead(Number(status), { http11: minor === "1", sound: isSound });
  }

  /** Takes a line after the first, as Latin-1 without its LF. */
  take(line: string): void {
    const [, name, sent] = FIELD_LINE.exec(line) ?? [];
    if (name === undefined || sent === undefined) this.#isSound = false;
    else this.#takeField(name.toLowerCase(), sent);
    if (!line.endsWith("\r")) this.#isSound = false;
  }

  /** Takes the empty line behind the fields. */
  end(line: string): void {
    const lengths = this.#lengths;
    const bytes = lengths === null ? undefined : LENGTHS.exec(lengths)?.[1];
    const hasOneEnd = lengths === null || (lengths === bytes && this.#codings === "");
    this.framing = this.#framingOf(bytes);
    const said = listed(this.#connection);
    const isKept = this.#isHttp11 ? !said.includes("close") : said.includes("keep-alive");
    const isSound = this.#isSound && hasOneEnd && line === "\r";
    this.staysOpen = isKept && isSound && this.framing.kind !== "close";
  }

  /** How long the receiver keeps the connection, by its own account; null if it does not say. */
  get keepAliveMs(): number | null {
    const seconds = /\btimeout=(\d{1,6})/i.exec(this.#keepAlive)?.[1];
    return seconds === undefined ? null : Number(seconds) * 1000;
  }

  #takeField(name: string, sent: string): void {
    const value = trimmed(sent);
    switch (name) {
      case "content-length":
        this.#lengths = this.#lengths === null ? value : `${this.#lengths},${value}`;
        break;
      case "transfer-encoding":
        // Node takes a coding with a tab behind it for another one.
        if (value === "" || sent.includes("\t")) this.#isSound = false;
        this.#codings += `,${value}`;
        break;
      case "connection":
        this.#connection += `,${value}`;
        break;
      case "keep-alive":
        this.#keepAlive ||= value;
        break;
      case "retry-after":
        // The value is stored and shown, and a receiver may send anything: neither a date nor a number needs more.
        if (this.retryAfter === null && RETRY_AFTER.test(value)) this.retryAfter = value;
        break;
    }
  }

  #framingOf(bytes: string | undefined): BodyFraming {
    const { status } = this;
    if (status < 200 || status === 204 || status === 304) return { kind: "none" };
    if (this.#codings !== "") {
      return { kind: listed(this.#codings).at(-1) === "chunked" ? "chunked" : "close" };
    }
    return bytes === undefined ? { kind: "close" } : { kind: "length", bytes: Number(bytes) };
  }
}

function listed(value: string): readonly string[] {
  return value.toLowerCase().split(",").map(trimmed);
}

/** Without spaces and tabs around it. `trim` would take a no-break space for one, and others read it as a letter. */
function trimmed(text: string): string {
  let [start, end] = [0, text.length];
  while (start < end && isSpace(text[start])) start += 1;
  while (end > start && isSpace(text[end - 1])) end -= 1;
  return text.slice(start, end);
}

function isSpace(letter: string | undefined): boolean {
  return letter === " " || letter === "\t";
}

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
class ChunkedBody {
  #state: State = "size";
  /** The beginning of a line whose end has not come. */
  #line = "";
  #left = 0;
  #trailerLines = 0;

  get state(): "open" | "complete" | "malformed" {
    return this.#state === "complete" || this.#state === "malformed" ? this.#state : "open";
  }

  /** Takes bytes, passes the data in them to `onData`, and returns how many of them belong to the body. */
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
