declare global {
  // In V8 since Node 21, not yet in TypeScript's library: JSON.parse source text access (ECMA proposal).
  interface JSON {
    rawJSON(text: string): { readonly rawJSON: string };
    isRawJSON(value: unknown): value is { readonly rawJSON: string };
    parse(
      text: string,
      reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
    ): unknown;
  }
}

/** An input or a result may nest this deep (contract §1). */
export const JSON_DEPTH_MAX = 64;

/** What kept bytes from being JSON that postbackd takes. `reason` completes "the body is …". */
export type JsonFault = { readonly kind: "fault"; readonly reason: string };

/** A parsed document. Numbers that a double would change are `JSON.rawJSON` objects in `value`. */
export type JsonDocument = { readonly kind: "json"; readonly value: unknown };

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Parses bytes as UTF-8 JSON at most `depthMax` levels deep, keeping every digit of every number. */
export function parseJsonBytes(
  bytes: Uint8Array,
  depthMax = JSON_DEPTH_MAX,
): JsonDocument | JsonFault {
  let text: string;
  try {
    // `ignoreBOM` stays false: a byte order mark is dropped, as RFC 8259 §8.1 allows a parser to.
    text = utf8.decode(bytes);
  } catch {
    return { kind: "fault", reason: "not valid UTF-8" };
  }
  return parseJsonText(text, depthMax);
}

/** As {@link parseJsonBytes}, from text. */
export function parseJsonText(text: string, depthMax = JSON_DEPTH_MAX): JsonDocument | JsonFault {
  if (isDeeperThan(text, depthMax)) {
    return { kind: "fault", reason: `nested deeper than ${depthMax} levels` };
  }
  try {
    return { kind: "json", value: parseKeepingDigits(text) };
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

/**
 * Finds a number that could read differently after a trip through a double: 16 digits or more, a trailing
 * zero in the fraction, a very small fraction, an exponent, or minus zero. It looks for what stands before
 * a number, so that dates, UUIDs and hashes in strings don't count; what it mistakes for a number all the
 * same costs the slow parse and nothing else.
 */
const FRAGILE_NUMBER =
  /(?:^|[\s[:,])(?:-0|-?(?:[\d.]{16}|\d+\.\d*0(?!\d)|0\.0{6}|\d+(?:\.\d+)?[eE]))/;

// As above, with all of the number.
const FRAGILE_NUMBERS = new RegExp(`${FRAGILE_NUMBER.source}[\\d.eE+-]*`, "g");
const NUMBER_START = /[-\d]/;

// Most numbers that look like it are a double's own digits, as of a list of measurements: to look at them
// costs a third of what the reviver does.
function hasFragileNumber(text: string): boolean {
  if (!FRAGILE_NUMBER.test(text)) return false;
  for (const [match] of text.matchAll(FRAGILE_NUMBERS)) {
    const number = match.slice(match.search(NUMBER_START));
    if (String(Number(number)) !== number) return true;
  }
  return false;
}

function parseKeepingDigits(text: string): unknown {
  if (!hasFragileNumber(text)) return JSON.parse(text);
  return JSON.parse(text, (_key, value: unknown, context) => {
    if (typeof value !== "number" || context.source === undefined) return value;
    return String(value) === context.source ? value : JSON.rawJSON(context.source);
  });
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * True when brackets nest deeper than `depthMax`. A scan before parsing, because the parser and the
 * reviver are recursive: 100,000 levels would cost the stack.
 */
export function isDeeperThan(text: string, depthMax: number): boolean {
  let depth = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (inString) {
      if (unit === BACKSLASH) i++;
      else if (unit === QUOTE) inString = false;
      continue;
    }
    if (unit === QUOTE) inString = true;
    else if (unit === 0x5b || unit === 0x7b) {
      if (++depth > depthMax) return true;
    } else if (unit === 0x5d || unit === 0x7d) depth--;
  }
  return false;
}
