import { type Fault, fault } from "../rule.ts";
import { CompactFault, compactJsonBytes } from "./json-compact.ts";

declare global {
  // In V8 since Node 21, not yet in TypeScript's library (ECMA proposal JSON.parse source text access).
  interface JSON {
    rawJSON(text: string): { readonly rawJSON: string };
    isRawJSON(value: unknown): value is { readonly rawJSON: string };
  }
}

/** An input or a result may nest this deep (http-api.md). */
export const JSON_DEPTH_MAX = 64;

/** A parsed document. Numbers that a double would change are `JSON.rawJSON` objects in `value`. */
type JsonDocument = { readonly kind: "json"; readonly value: unknown };

const LINE_FEED = 0x0a;

const utf8 = new TextDecoder("utf-8", { fatal: true });

export interface JsonReading {
  /** The most levels; {@link JSON_DEPTH_MAX} unless given. */
  readonly depthMax?: number;
  /** False if numbers are not returned to a client: then each is a double. */
  readonly keepsDigits?: boolean;
  /**
   * How many objects deep values are made, also in the lists that are there. Deeper values, and lists in such lists,
   * become {@link JsonText}: they are only given back. All are made unless given.
   */
  readonly opens?: number;
}

/** Keeps every digit of every number by default. The reason of a fault completes "the body is …". */
export function parseJsonBytes(
  bytes: Uint8Array,
  { depthMax = JSON_DEPTH_MAX, keepsDigits = true, opens = Infinity }: JsonReading = {},
): JsonDocument | Fault {
  const compact = compactJson(bytes, depthMax);
  if (compact.kind === "fault") return compact;
  const opener = new Opener(compact.text, keepsDigits && HAS_RAW_JSON);
  return { kind: "json", value: opener.value(opens) };
}

/** Compact text with every digit and with members in their order. An opened value has the order of JavaScript. */
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
    // The message has the position and does not quote the text, which may contain a secret.
    const end = error.at >= bytes.length ? ": it ends too early" : "";
    return fault(`not valid JSON${end} (${placeOf(bytes, error.at)})`);
  }
}

/** The position of a byte of valid UTF-8 as editors show it: line and column from 1, columns in UTF-16 units. */
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

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const NINE = 0x39;
const ARRAY_OPEN = 0x5b;
const ARRAY_CLOSE = 0x5d;
const OBJECT_OPEN = 0x7b;
const OBJECT_CLOSE = 0x7d;

// From so many units on, V8 keeps the whole text alive for a part of it, as long as the part lives.
const SLICE_LENGTH_MIN = 13;

// False in Node 20, where the library for workers runs too: there every number is a double.
const HAS_RAW_JSON = "rawJSON" in JSON;

/** A list or an object that was not opened: its JSON, written compactly. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A longer list shows only its length: such a list is not read value by value. */
const OPENED_ITEMS_MAX = 10_000;

/** `JSON.parse` makes no object here: up to V8 14.6 it takes an escaped name for another that it has seen. */
class Opener {
  readonly #text: string;
  readonly #keepsDigits: boolean;
  #at = 0;

  constructor(text: string, keepsDigits: boolean) {
    this.#text = text;
    this.#keepsDigits = keepsDigits;
  }

  value(opens: number): unknown {
    const start = this.#at;
    const unit = this.#text.charCodeAt(start);
    if (unit === QUOTE) return this.#string();
    if (unit === ARRAY_OPEN && opens > 0) return this.#array(opens);
    if (unit === OBJECT_OPEN && opens > 0) return this.#object(opens);
    this.#at = valueEnd(this.#text, start);
    const source = this.#text.slice(start, this.#at);
    if (unit === ARRAY_OPEN || unit === OBJECT_OPEN) return new JsonText(source);
    if (unit > NINE) return JSON.parse(source);
    const value = Number(source);
    const isChanged = this.#keepsDigits && !SAFE.test(source) && String(value) !== source;
    return isChanged ? JSON.rawJSON(source) : value;
  }

  #array(opens: number): unknown[] {
    const values: unknown[] = [];
    this.#at++;
    if (this.#isClosed(ARRAY_CLOSE)) return values;
    const isBounded = opens !== Infinity;
    let count = 0;
    do {
      const isList = this.#text.charCodeAt(this.#at) === ARRAY_OPEN;
      if (isBounded && ++count > OPENED_ITEMS_MAX) this.#at = valueEnd(this.#text, this.#at);
      else values.push(this.value(isBounded && isList ? 0 : opens));
    } while (this.#isFollowed());
    if (isBounded) values.length = count;
    return values;
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

  #string(): string {
    const start = this.#at;
    const end = stringEnd(this.#text, start);
    this.#at = end + 1;
    const inner = this.#text.slice(start + 1, end);
    if (inner.length < SLICE_LENGTH_MIN && !inner.includes("\\")) return inner;
    // The platform's parser decodes escapes, and its result is not a slice.
    return JSON.parse(this.#text.slice(start, this.#at)) as string;
  }
}

function setMember(members: Record<string, unknown>, name: string, value: unknown): void {
  if (name !== "__proto__") members[name] = value;
  // An assignment would make it the prototype.
  else Object.defineProperty(members, name, { value, ...ORDINARY });
}

// A double gives these back, and most numbers are such.
const SAFE = /^[1-9]\d{0,14}$/;

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
  let end = start + 1;
  // A number, true, false or null: up to a comma, a closing bracket or the end.
  while (!isEnd(text.charCodeAt(end))) end++;
  return end;
}

function isEnd(unit: number): boolean {
  return unit === COMMA || unit === ARRAY_CLOSE || unit === OBJECT_CLOSE || Number.isNaN(unit);
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
  /** It is never refused, because it could not be requested again. */
  readonly isPatient?: true;
}
