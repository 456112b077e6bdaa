import { type Fault, fault } from "../rule.ts";
import { CompactFault, compactJsonBytes } from "./json-compact.ts";

declare global {
  // In V8 since Node 21, not yet in TypeScript's library (ECMA proposal JSON.parse source text access).
  interface JSON {
    rawJSON(text: string): { readonly rawJSON: string };
    isRawJSON(value: unknown): value is { readonly rawJSON: string };
  }
}

/** An input or a result may nest this deep (contract §1). */
export const JSON_DEPTH_MAX = 64;

/** A parsed document. Numbers that a double would change are `JSON.rawJSON` objects in `value`. */
export type JsonDocument = { readonly kind: "json"; readonly value: unknown };

const LINE_FEED = 0x0a;

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Options for reading a document. */
export interface JsonReading {
  /** The most levels; {@link JSON_DEPTH_MAX} unless given. */
  readonly depthMax?: number;
  /** False when no number is given back to anybody: each is a double then. */
  readonly keepsDigits?: boolean;
  /**
   * How many objects deep it is opened, see {@link JsonBuild}: for documents whose deeper values are only given back.
   * All unless given.
   */
  readonly opens?: number;
}

/**
 * Parses bytes as UTF-8 JSON, keeping every digit of every number unless told otherwise. The reason of a fault
 * completes "the body is …".
 */
export function parseJsonBytes(
  bytes: Uint8Array,
  { depthMax = JSON_DEPTH_MAX, keepsDigits = true, opens = Infinity }: JsonReading = {},
): JsonDocument | Fault {
  const compact = compactJson(bytes, depthMax);
  if (compact.kind === "fault") return compact;
  return { kind: "json", value: buildJson(compact.text, { keepsDigits, opens }) };
}

/**
 * Compact text of UTF-8 JSON, with every digit and with members in their order. {@link toJsonText} of a value that was
 * opened has the order of JavaScript instead.
 */
export function compactJson(
  bytes: Uint8Array,
  depthMax = JSON_DEPTH_MAX,
): { readonly kind: "text"; readonly text: string } | Fault {
  try {
    const compact = compactJsonBytes(bytes, depthMax);
    // The value that a repeated name replaces was left out, and must be UTF-8 too.
    if (compact.length < bytes.length && !isUtf8(bytes)) return fault("not valid UTF-8");
    return { kind: "text", text: utf8.decode(compact) };
  } catch (error) {
    if (!(error instanceof CompactFault) || !isUtf8(bytes)) return fault("not valid UTF-8");
    if (error.isTooDeep) return fault(`nested deeper than ${depthMax} levels`);
    // The place is told and the text is not quoted: it may hold a secret.
    const end = error.at >= bytes.length ? ": it ends too early" : "";
    return fault(`not valid JSON${end} (${placeOf(bytes, error.at)})`);
  }
}

/** Where a byte of valid UTF-8 stands, in the words of an editor: both count from 1, columns are UTF-16 units. */
function placeOf(bytes: Uint8Array, at: number): string {
  let line = 1;
  let start = 0;
  for (let i = 0; i < at; i++) {
    if (bytes[i] !== LINE_FEED) continue;
    line++;
    start = i + 1;
  }
  return `line ${line}, column ${utf8.decode(bytes.subarray(start, at)).length + 1}`;
}

function isUtf8(bytes: Uint8Array): boolean {
  try {
    utf8.decode(bytes);
    return true;
  } catch {
    // That was the question.
    return false;
  }
}

/** JSON text of a parsed value; digits that the parser kept come out as they went in. */
export function toJsonText(value: unknown): string {
  return value instanceof JsonText ? value.text : JSON.stringify(value);
}

/** A JSON object as the parser made it. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** True for a JSON object as the parser made it. */
export function isJsonObject(value: unknown): value is JsonObject {
  // A number whose digits are kept is an object to JavaScript, and a number to the client.
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return !isRawJson(value) && !(value instanceof JsonText);
}

/** The plain number of a parsed number, however the parser kept it. */
export function toPlainNumber(value: unknown): unknown {
  return isRawJson(value) ? Number(value.rawJSON) : value;
}

function isRawJson(value: unknown): value is { readonly rawJSON: string } {
  return HAS_RAW_JSON && JSON.isRawJSON(value);
}

/** Builds values from compact JSON; their numbers keep every digit where a double would change some. */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const MINUS = 0x2d;
const ZERO = 0x30;
const NINE = 0x39;
const POINT = 0x2e;
const ARRAY_OPEN = 0x5b;
const ARRAY_CLOSE = 0x5d;
const OBJECT_OPEN = 0x7b;
const OBJECT_CLOSE = 0x7d;
const LETTER_F = 0x66;
const LETTER_T = 0x74;

// From so many units on, V8 keeps the whole text alive for a part of it, as long as somebody has the part.
const SLICE_LENGTH_MIN = 13;

/** False in Node 20, where the library for workers runs too: there every number is a double. */
export const HAS_RAW_JSON: boolean = "rawJSON" in JSON;

/** A list or an object that was not opened: its JSON, written compactly. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** Options for building a value from a text. */
export interface JsonBuild {
  /** False: every number is a double. */
  readonly keepsDigits: boolean;
  /**
   * Down to so many objects deep, values are made, also in the lists that are there. Deeper values, and lists in such
   * lists, become {@link JsonText}.
   */
  readonly opens: number;
}

/** A longer list tells only its length: nobody takes as many values from outside one by one. */
export const OPENED_ITEMS_MAX = 10_000;

/**
 * Builds the value of a text that json-compact.ts has written. It recurses as deep as the text, and each character
 * costs the same wherever it is.
 */
export function buildJson(text: string, build: JsonBuild): unknown {
  return new Builder(text, build).value(build.opens);
}

/** Every text here is certain to be compact JSON, so nothing is checked again. */
class Builder {
  readonly #text: string;
  readonly #keepsDigits: boolean;
  #at = 0;

  constructor(text: string, { keepsDigits }: JsonBuild) {
    this.#text = text;
    this.#keepsDigits = keepsDigits && HAS_RAW_JSON;
  }

  value(opens: number): unknown {
    const unit = this.#text.charCodeAt(this.#at);
    if (unit === QUOTE) return this.#string();
    if (unit === ARRAY_OPEN) return opens === 0 ? this.#unopened() : this.#array(opens);
    if (unit === OBJECT_OPEN) return opens === 0 ? this.#unopened() : this.#object(opens);
    return unit === MINUS || isDigit(unit) ? this.#number() : this.#word(unit);
  }

  #array(opens: number): unknown[] {
    const values: unknown[] = [];
    this.#at++;
    if (this.#isClosed(ARRAY_CLOSE)) return values;
    const isBounded = opens !== Infinity;
    let count = 0;
    do {
      count++;
      if (isBounded && count > OPENED_ITEMS_MAX) this.#at = valueEnd(this.#text, this.#at);
      else values.push(isBounded && this.#isList() ? this.#unopened() : this.value(opens));
    } while (this.#isFollowed());
    values.length = count;
    return values;
  }

  #isList(): boolean {
    return this.#text.charCodeAt(this.#at) === ARRAY_OPEN;
  }

  #object(opens: number): object {
    const members: Record<string, unknown> = {};
    this.#at++;
    if (this.#isClosed(OBJECT_CLOSE)) return members;
    do {
      const name = this.#string();
      // The colon.
      this.#at++;
      setMember(members, name, this.value(opens - 1));
    } while (this.#isFollowed());
    return members;
  }

  /** Steps over the closing bracket of an empty list or object; true if it did. */
  #isClosed(bracket: number): boolean {
    const isClosed = this.#text.charCodeAt(this.#at) === bracket;
    if (isClosed) this.#at++;
    return isClosed;
  }

  /** Steps over the comma or the bracket: true for a comma. */
  #isFollowed(): boolean {
    return this.#text.charCodeAt(this.#at++) === COMMA;
  }

  /** Steps over a value without making it. */
  #unopened(): JsonText {
    const start = this.#at;
    this.#at = valueEnd(this.#text, start);
    return new JsonText(this.#text.slice(start, this.#at));
  }

  #string(): string {
    const start = this.#at;
    const end = stringEnd(this.#text, start);
    this.#at = end + 1;
    const inner = this.#text.slice(start + 1, end);
    if (inner.length < SLICE_LENGTH_MIN && !inner.includes("\\")) return inner;
    // The platform's parser knows what escapes mean, and what it returns is no slice.
    return JSON.parse(this.#text.slice(start, this.#at)) as string;
  }

  #number(): unknown {
    const start = this.#at;
    this.#at = numberEnd(this.#text, start);
    const source = this.#text.slice(start, this.#at);
    const isKept = this.#keepsDigits && isChanged(this.#text, start, this.#at);
    return isKept ? JSON.rawJSON(source) : Number(source);
  }

  #word(unit: number): boolean | null {
    this.#at = valueEnd(this.#text, this.#at);
    return unit === LETTER_F ? false : unit === LETTER_T ? true : null;
  }
}

function setMember(members: Record<string, unknown>, name: string, value: unknown): void {
  if (name !== "__proto__") members[name] = value;
  // An assignment would make it the prototype.
  else Object.defineProperty(members, name, { value, ...ORDINARY });
}

const ORDINARY = { configurable: true, enumerable: true, writable: true };

/** True when the brackets of such a text nest deeper than `depthMax`. */
export function isDeeperThan(text: string, depthMax: number): boolean {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === QUOTE) i = stringEnd(text, i);
    else if (unit === ARRAY_OPEN || unit === OBJECT_OPEN) {
      if (++depth > depthMax) return true;
    } else if (unit === ARRAY_CLOSE || unit === OBJECT_CLOSE) depth--;
  }
  return false;
}

/** The end of the value that begins here. */
function valueEnd(text: string, start: number): number {
  const first = text.charCodeAt(start);
  if (first === QUOTE) return stringEnd(text, start) + 1;
  if (first === ARRAY_OPEN || first === OBJECT_OPEN) return bracketEnd(text, start);
  if (first === MINUS || isDigit(first)) return numberEnd(text, start);
  return start + (first === LETTER_F ? "false" : "true").length;
}

function bracketEnd(text: string, start: number): number {
  let depth = 0;
  let i = start;
  do {
    const unit = text.charCodeAt(i);
    if (unit === QUOTE) i = stringEnd(text, i);
    else if (unit === ARRAY_OPEN || unit === OBJECT_OPEN) depth++;
    else if (unit === ARRAY_CLOSE || unit === OBJECT_CLOSE) depth--;
    i++;
  } while (depth > 0);
  return i;
}

/** The position of the closing quote, or the end of the text. */
function stringEnd(text: string, start: number): number {
  let i = start + 1;
  for (; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === QUOTE) break;
    if (unit === BACKSLASH) i++;
  }
  return i;
}

/** The end of the characters that a number may have. */
function numberEnd(text: string, start: number): number {
  let i = start + 1;
  while (isNumberUnit(text.charCodeAt(i))) i++;
  return i;
}

function isNumberUnit(unit: number): boolean {
  if (isDigit(unit) || unit === POINT || unit === MINUS) return true;
  // "+", "e" and "E".
  return unit === 0x2b || unit === 0x65 || unit === 0x45;
}

function isDigit(unit: number): boolean {
  return unit >= ZERO && unit <= NINE;
}

// With up to so many digits, a double gives back the digits that it was made from.
const SAFE_LENGTH = 15;
// The longest text of a double: -0.0000012345678901234567.
const DOUBLE_LENGTH_MAX = 25;

function isChanged(text: string, start: number, end: number): boolean {
  const length = end - start;
  if (length > DOUBLE_LENGTH_MAX) return true;
  if (length <= SAFE_LENGTH && isPlain(text, start, end)) return false;
  const source = text.slice(start, end);
  return String(Number(source)) !== source;
}

/** True for digits without a zero that would be dropped, like most numbers: their double need not be tried. */
function isPlain(text: string, start: number, end: number): boolean {
  const first = text.charCodeAt(start) === MINUS ? start + 1 : start;
  let hasPoint = false;
  for (let i = first; i < end; i++) {
    const unit = text.charCodeAt(i);
    if (unit === POINT) hasPoint = true;
    else if (!isDigit(unit)) return false;
  }
  if (hasPoint && text.charCodeAt(end - 1) === ZERO) return false;
  if (text.charCodeAt(first) !== ZERO) return true;
  // A very small fraction may be written with an exponent, and minus zero loses its sign.
  return hasPoint ? !text.startsWith("0.000000", first) : first === start;
}

/** Work by name. Each is a function of plain data alone, whose arguments and result can be copied to another thread. */
export type WorkTable = Readonly<Record<string, (args: never) => unknown>>;

/** Does work elsewhere that would hold up the caller's thread. */
export interface Offload<Table extends WorkTable> {
  /**
   * Promises the result of the work, or rejects with a StatusError that it throws. One piece of each owner is done in
   * turn; an owner with too much waiting work is refused with 42900 or 50300.
   */
  run<Name extends keyof Table>(
    name: Name,
    args: Parameters<Table[Name]>[0],
    by: WorkOrder,
  ): Promise<ReturnType<Table[Name]>>;
}

export interface WorkOrder {
  /** The owner whose turn it takes. */
  readonly owner: string;
  /** The size of the arguments, because the waiting bytes are limited. */
  readonly bytes: number;
  /** It is never refused, because nobody could ask for it again. */
  readonly isPatient?: true;
}
