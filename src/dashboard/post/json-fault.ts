/** Finds the first mistake in JSON: engines name it in words of their own, and some do not say where it is. */

/** The position of the first fault in JSON, from 1 on, and what would be correct there. */
export interface JsonFault {
  readonly line: number;
  /** In characters. */
  readonly column: number;
  readonly expected: string;
}

type Wanted =
  | "a value"
  | "a value or ]"
  | "a name in double quotes"
  | "a name in double quotes, or }"
  | "a colon"
  | "a comma or ]"
  | "a comma or }"
  | "nothing more";

const SPACE = /[ \t\n\r]*/y;
// Without nested repetitions of the same characters, which would backtrack.
const STRING_START = /"[^"\\\0-\u001f]*(?:\\(?:["\\/bfnrt]|u[\dA-Fa-f]{4})[^"\\\0-\u001f]*)*/y;
const TOKEN = new RegExp(
  String.raw`[[\]{}:,]|${STRING_START.source}"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null`,
  "y",
);

/** The first mistake in a text; null where it is JSON. */
export function findJsonFault(text: string): JsonFault | null {
  try {
    JSON.parse(text);
    return null;
  } catch {
    return firstFault(text);
  }
}

function firstFault(text: string): JsonFault {
  const open: string[] = [];
  let wanted: Wanted = "a value";
  let at = 0;
  for (;;) {
    at += match(SPACE, text, at).length;
    const token = match(TOKEN, text, at);
    const next = follow(wanted, token.charAt(0), open);
    if (next === null) return toFault(text, at, wanted);
    wanted = next;
    at += token.length;
  }
}

function match(pattern: RegExp, text: string, at: number): string {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0] ?? "";
}

/** By the first character of a token: what is wanted after it, or the end of a list or an object. */
const NEXT: Partial<Record<Wanted, Readonly<Record<string, Wanted | "end">>>> = {
  "a value or ]": { "]": "end" },
  "a name in double quotes": { '"': "a colon" },
  "a name in double quotes, or }": { '"': "a colon", "}": "end" },
  "a colon": { ":": "a value" },
  "a comma or ]": { ",": "a value", "]": "end" },
  "a comma or }": { ",": "a name in double quotes", "}": "end" },
};

/** Returns what is wanted after a token that begins with this character; null if another token was wanted. */
function follow(wanted: Wanted, first: string, open: string[]): Wanted | null {
  const next = NEXT[wanted]?.[first];
  if (next === undefined) return wanted.startsWith("a value") ? beginValue(first, open) : null;
  if (next !== "end") return next;
  open.pop();
  return afterValue(open);
}

function beginValue(first: string, open: string[]): Wanted | null {
  if (first === "" || "]}:,".includes(first)) return null;
  if (first !== "[" && first !== "{") return afterValue(open);
  open.push(first);
  return first === "[" ? "a value or ]" : "a name in double quotes, or }";
}

function afterValue(open: readonly string[]): Wanted {
  const inner = open.at(-1);
  if (inner === undefined) return "nothing more";
  return inner === "[" ? "a comma or ]" : "a comma or }";
}

function toFault(text: string, at: number, wanted: Wanted): JsonFault {
  const isString = text[at] === '"' && wanted !== "nothing more" && !wanted.startsWith("a co");
  const end = isString ? at + match(STRING_START, text, at).length : at;
  const lines = text.slice(0, end).split("\n");
  const expected = isString ? inString(text[end]) : wanted;
  return { line: lines.length, column: Array.from(lines.at(-1) ?? "").length + 1, expected };
}

function inString(found: string | undefined): string {
  if (found === "\\") return String.raw`an escape such as \n, \" or \\`;
  return String.raw`the string's closing quote; line breaks and tabs in it are written \n and \t`;
}
