/** Keeps JSON as it was written: numbers with every digit, which JavaScript's own would round. */

/** A number by its text: `1.50`, `9007199254740993`. */
export class JsonNumber {
  readonly source: string;
  constructor(source: string) {
    this.source = source;
  }
}

export type JsonSource =
  | null
  | boolean
  | string
  | JsonNumber
  | readonly JsonSource[]
  | { readonly [name: string]: JsonSource };

/** Parses JSON text; undefined where it is invalid, or nested too deeply to be walked through. */
export function parseJsonSource(text: string): JsonSource | undefined {
  try {
    // The reviver turns every number into a JsonNumber; nothing else in JSON needs it.
    return parseWithSource(text, toSource) as JsonSource;
  } catch {
    return undefined;
  }
}

type Reviver = (name: string, value: unknown, context?: { readonly source?: string }) => unknown;

// The types of the language do not know the third argument of revivers yet.
const parseWithSource = JSON.parse as (text: string, reviver: Reviver) => unknown;

function toSource(_name: string, value: unknown, context?: { readonly source?: string }): unknown {
  if (typeof value !== "number") return value;
  // A browser that does not pass the text has only the number.
  return new JsonNumber(context?.source ?? String(value));
}

/** A member of an object; undefined if the value is not an object or does not have the member. */
export function memberOf(value: JsonSource | undefined, name: string): JsonSource | undefined {
  if (!isObject(value) || !Object.hasOwn(value, name)) return undefined;
  return value[name];
}

/** True for an object, not for a list or a number. */
export function isObject(
  value: JsonSource | undefined,
): value is { readonly [name: string]: JsonSource } {
  return (
    typeof value === "object" && value !== null && !isList(value) && !(value instanceof JsonNumber)
  );
}

export function isList(value: JsonSource | undefined): value is readonly JsonSource[] {
  return Array.isArray(value);
}

/** The value as JSON text again, indented by two spaces, with its numbers as they were written. */
export function jsonText(value: JsonSource, indent = ""): string {
  if (value instanceof JsonNumber) return value.source;
  if (!isList(value) && !isObject(value)) return JSON.stringify(value);
  const deeper = `${indent}  `;
  const items = isList(value)
    ? value.map((item) => jsonText(item, deeper))
    : Object.entries(value).map(
        ([name, item]) => `${JSON.stringify(name)}: ${jsonText(item, deeper)}`,
      );
  const [open, close] = isList(value) ? "[]" : "{}";
  if (items.length === 0) return `${open}${close}`;
  return `${open}\n${items.map((item) => deeper + item).join(",\n")}\n${indent}${close}`;
}
