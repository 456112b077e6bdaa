import { fault, type Fault } from "../rule.ts";
import { buildJson, HAS_RAW_JSON, JsonText } from "./json-build.ts";
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
