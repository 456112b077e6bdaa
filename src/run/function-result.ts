import { JSON_DEPTH_MAX, isDeeperThan } from "../domain/json/json.ts";
import { type RunResult, toRunResult } from "./run-result.ts";

/**
 * Writes a function's return value as JSON, as `JSON.stringify` does: `toJSON` is asked, `undefined` is null, NaN and
 * infinities are null, and `JSON.rawJSON` keeps its digits. Refuses values that JSON cannot hold, nesting deeper than
 * is allowed, and text over `bytesMax` bytes.
 */
export function toFunctionResult(value: unknown, bytesMax: number): RunResult {
  if (value === undefined) return { kind: "result", resultText: "null" };
  const text = stringify(value);
  if (typeof text === "object") return text;
  const result = toRunResult(text, bytesMax);
  if (result.kind === "fault" || !isDeeperThan(text, JSON_DEPTH_MAX)) return result;
  return { kind: "fault", reason: `is nested deeper than ${JSON_DEPTH_MAX} levels` };
}

function stringify(value: unknown): string | Extract<RunResult, { kind: "fault" }> {
  try {
    // Its type leaves out that a function, a symbol, or a toJSON that returns nothing has no JSON at all.
    const text: unknown = JSON.stringify(value);
    if (typeof text === "string") return text;
    return { kind: "fault", reason: `has no form in JSON (a ${typeof value})` };
  } catch (error) {
    // The value has a cycle, a BigInt, a toJSON or a getter that throws, or more levels than the stack.
    const [reason = ""] = (thrownMessage(error) ?? "it holds something that throws").split("\n", 1);
    return { kind: "fault", reason: `cannot be written as JSON: ${reason}` };
  }
}

/** The most UTF-16 units of a message; a longer one is cut and ends with "…". */
export const MESSAGE_LENGTH_MAX = 1000;

/**
 * The text of a thrown value, an error's message or a text: well-formed and cut to a sane length; null where there is
 * none. Never throws.
 */
export function thrownMessage(thrown: unknown): string | null {
  const read = (): unknown => (isObject(thrown) && "message" in thrown ? thrown.message : thrown);
  return readText(read, MESSAGE_LENGTH_MAX);
}

/** The name of a thrown error, such as `TypeError`; null where it has none that can be shown. Never throws. */
export function thrownName(thrown: unknown): string | null {
  const read = (): unknown => (isObject(thrown) && "name" in thrown ? thrown.name : null);
  return readText(read, NAME_LENGTH_MAX);
}

const NAME_LENGTH_MAX = 100;

function isObject(value: unknown): value is object {
  return (typeof value === "object" && value !== null) || typeof value === "function";
}

// A getter, or the trap of a proxy, may throw as well.
function readText(read: () => unknown, lengthMax: number): string | null {
  try {
    const value = read();
    return typeof value === "string" && value.trim() !== "" ? cut(value, lengthMax) : null;
  } catch {
    // The value has no text that can be shown.
    return null;
  }
}

function cut(text: string, lengthMax: number): string {
  if (text.length <= lengthMax) return text.toWellFormed();
  // A surrogate pair that the limit cuts in two is left out.
  return `${text.slice(0, lengthMax - 1).replace(/[\ud800-\udbff]$/, "")}…`.toWellFormed();
}
