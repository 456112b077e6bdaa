/** How the end of a response's body is found (RFC 9112 §6.3). */
export type BodyFraming =
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
 * (contract §5). A fault in a later line only closes the connection: two readers could see two ends of the response.
 * Faults are what Node's parser refuses: a line that ends with LF alone, a folded line, two lengths, a length and chunks.
 */
export class AnswerHead {
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

  /**
   * Begins a head with its first line, as Latin-1 without its LF. Returns null if it is not a status line of HTTP/1.
   * `isAfterFault`: a fault came before it.
   */
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
