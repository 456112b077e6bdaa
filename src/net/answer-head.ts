/** How the end of an answer's body is found (RFC 9112 §6.3). */
export type BodyFraming =
  | { readonly kind: "none" }
  | { readonly kind: "length"; readonly bytes: number }
  | { readonly kind: "chunked" }
  /** The body ends with the connection. */
  | { readonly kind: "close" };

/** The head of an answer, as far as an attempt needs it. */
export interface AnswerHead {
  readonly status: number;
  readonly framing: BodyFraming;
  /** False where the receiver closes the connection after this answer. */
  readonly staysOpen: boolean;
  /** The first `Retry-After` as sent; null where there is none, or none fit to be shown. */
  readonly retryAfter: string | null;
  /** How long the receiver says it keeps the connection; null where it does not say. */
  readonly keepAliveMs: number | null;
}

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*)?$/;
// A name is a token, right before its colon; a folded line begins with a space, so it is no field (RFC 9112 §5).
const FIELD_LINE = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([\t\x20-\x7e\x80-\xff]*)$/;
const LENGTH = /^[0-9]{1,15}$/;
// An HTTP date is 29 characters.
const RETRY_AFTER = /^[\x20-\x7e]{1,100}$/;

/** The fields that decide something; all others are only checked. */
interface Fields {
  length: string | null;
  codings: string;
  connection: string;
  keepAlive: string;
  retryAfter: string | null;
}

/**
 * Parses the head of an answer: status line and field lines as Latin-1, without the empty line behind them. Null for
 * what is no head of HTTP/1. It is as strict as Node's parser, so that nobody can read the answer in two ways: lines
 * end with CR LF, a length is told once, and never beside chunks.
 */
export function parseAnswerHead(text: string): AnswerHead | null {
  const [statusLine = "", ...lines] = text.split("\r\n");
  const [, minor, code] = STATUS_LINE.exec(statusLine) ?? [];
  const fields = readFields(lines);
  if (code === undefined || fields === null) return null;
  const status = Number(code);
  const framing = framingOf(status, fields);
  if (framing === null) return null;
  const said = listed(fields.connection);
  const isKept = minor === "1" ? !said.includes("close") : said.includes("keep-alive");
  return {
    status,
    framing,
    staysOpen: isKept && framing.kind !== "close",
    retryAfter: fields.retryAfter,
    keepAliveMs: keepAliveMs(fields.keepAlive),
  };
}

/** False once the beginning of an answer can no longer become a head. */
export function mayBecomeHead(beginning: string): boolean {
  // Half of an empty line before the head.
  if (beginning === "\r") return true;
  const end = beginning.indexOf("\r\n");
  if (end >= 0) return STATUS_LINE.test(beginning.slice(0, end));
  const version = "HTTP/1.";
  return beginning.slice(0, version.length) === version.slice(0, beginning.length);
}

/** Null when one of the lines is no field, or the length is told twice. */
function readFields(lines: readonly string[]): Fields | null {
  const fields: Fields = {
    length: null,
    codings: "",
    connection: "",
    keepAlive: "",
    retryAfter: null,
  };
  for (const line of lines) {
    const [, name, value] = FIELD_LINE.exec(line) ?? [];
    if (name === undefined || value === undefined) return null;
    if (!take(fields, name.toLowerCase(), value)) return null;
  }
  return fields;
}

function take(fields: Fields, name: string, sent: string): boolean {
  const value = trimmed(sent);
  switch (name) {
    case "content-length":
      if (fields.length !== null || !LENGTH.test(value)) return false;
      fields.length = value;
      break;
    case "transfer-encoding":
      // Node takes a coding with a tab behind it for another one.
      if (value === "" || sent.includes("\t")) return false;
      fields.codings += `,${value}`;
      break;
    case "connection":
      fields.connection += `,${value}`;
      break;
    case "keep-alive":
      fields.keepAlive ||= value;
      break;
    case "retry-after":
      // The value is stored and shown, and a receiver may send anything: neither a date nor a number needs more.
      if (fields.retryAfter === null && RETRY_AFTER.test(value)) fields.retryAfter = value;
      break;
  }
  return true;
}

/** Null where a length stands beside chunks: two readers would see two bodies. */
function framingOf(status: number, { length, codings }: Fields): BodyFraming | null {
  if (length !== null && codings !== "") return null;
  if (status < 200 || status === 204 || status === 304) return { kind: "none" };
  if (codings !== "") return { kind: listed(codings).at(-1) === "chunked" ? "chunked" : "close" };
  return length === null ? { kind: "close" } : { kind: "length", bytes: Number(length) };
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

function keepAliveMs(value: string): number | null {
  const seconds = /\btimeout=(\d{1,6})/i.exec(value)?.[1];
  return seconds === undefined ? null : Number(seconds) * 1000;
}
