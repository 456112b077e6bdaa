import { buildJson, surveyJson } from "./json-build.ts";

declare global {
  // In V8 since Node 21, not yet in TypeScript's library (ECMA proposal JSON.parse source text access).
  interface JSON {
    rawJSON(text: string): { readonly rawJSON: string };
    isRawJSON(value: unknown): value is { readonly rawJSON: string };
  }
}

/** An input or a result may nest this deep (contract §1). */
export const JSON_DEPTH_MAX = 64;

/** What kept bytes from being JSON that postbackd takes. `reason` completes "the body is …". */
export type JsonFault = { readonly kind: "fault"; readonly reason: string };

/** A parsed document. Numbers that a double would change are `JSON.rawJSON` objects in `value`. */
export type JsonDocument = { readonly kind: "json"; readonly value: unknown };

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** How a document is read. */
export interface JsonReading {
  /** Levels; {@link JSON_DEPTH_MAX} unless told. */
  readonly depthMax?: number;
  /** False where no number is given back to anybody: each is a double then, which costs a fraction. */
  readonly keepsDigits?: boolean;
}

/** Parses bytes as UTF-8 JSON, keeping every digit of every number unless told otherwise. */
export function parseJsonBytes(
  bytes: Uint8Array,
  reading: JsonReading = {},
): JsonDocument | JsonFault {
  let text: string;
  try {
    // `ignoreBOM` stays false: a byte order mark is dropped, as RFC 8259 §8.1 allows a parser to.
    text = utf8.decode(bytes);
  } catch {
    return { kind: "fault", reason: "not valid UTF-8" };
  }
  return parseJsonText(text, reading);
}

/** As {@link parseJsonBytes}, from text. */
export function parseJsonText(
  text: string,
  { depthMax = JSON_DEPTH_MAX, keepsDigits = true }: JsonReading = {},
): JsonDocument | JsonFault {
  const { isTooDeep, isForBuilder } = surveyJson(text, depthMax);
  if (isTooDeep) return { kind: "fault", reason: `nested deeper than ${depthMax} levels` };
  try {
    const value: unknown = JSON.parse(text);
    return { kind: "json", value: keepsDigits && isForBuilder ? buildJson(text) : value };
  } catch {
    // The parser's own message quotes the text, which may hold a secret.
    return { kind: "fault", reason: "not valid JSON" };
  }
}

/** JSON text for a parsed value; digits kept by the parser come out as they went in. */
export function toJsonText(value: unknown): string {
  return JSON.stringify(value);
}

/** A JSON object as the parser made it. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** True for a JSON object as the parser made it. */
export function isJsonObject(value: unknown): value is JsonObject {
  // A number whose digits are kept is an object to JavaScript, and a number to the client.
  return (
    typeof value === "object" && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value)
  );
}

/**
 * True when a parsed value nests deeper than `depthMax`: nothing, text and numbers are no level, an empty array is one.
 */
export function isNestedDeeper(value: unknown, depthMax: number): boolean {
  if (typeof value !== "object" || value === null || JSON.isRawJSON(value)) return false;
  if (depthMax === 0) return true;
  return Object.values(value).some((each) => isNestedDeeper(each, depthMax - 1));
}

/** The plain number behind a parsed number, whichever way the parser kept it. */
export function toPlainNumber(value: unknown): unknown {
  return JSON.isRawJSON(value) ? Number(value.rawJSON) : value;
}

/** True when brackets nest deeper than `depthMax`. */
export function isDeeperThan(text: string, depthMax: number): boolean {
  return surveyJson(text, depthMax).isTooDeep;
}
