import { pino, type DestinationStream } from "pino";

import type { Logger } from "./domain/log.ts";

export interface LogOptions {
  readonly level: "debug" | "info" | "warn" | "error" | "silent";
  readonly format: "json" | "text";
  /** Where lines go: standard error unless a test wants them. */
  readonly write?: (line: string) => void;
}

/** Makes the program's log: JSON lines, or text for a person at a terminal. */
export function createLogger({ level, format, write }: LogOptions): Logger {
  const sink: DestinationStream = { write: write ?? ((line) => process.stderr.write(line)) };
  const stream = format === "json" ? sink : { write: (line: string) => sink.write(toText(line)) };
  const options = { level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  return pino({ ...options, formatters: { level: (label) => ({ level: label }) } }, stream);
}

// `2026-01-31T09:00:00.000Z WARN  message key=value …`, made from the JSON line, so that both forms say the same.
function toText(line: string): string {
  const parsed: unknown = JSON.parse(line);
  if (typeof parsed !== "object" || parsed === null) return line;
  const { time, level, msg, err, ...facts } = { time: "", level: "", msg: "", ...parsed } as Record<
    string,
    unknown
  >;
  const pairs = Object.entries(facts).map(([key, value]) => `${key}=${factText(value)}`);
  const head = [time, String(level).toUpperCase().padEnd(5), msg, ...pairs].map(String).join(" ");
  const stack = isError(err) ? `\n${printable(err.stack).replaceAll("\\n", "\n")}` : "";
  return `${head}${stack}\n`;
}

function isError(value: unknown): value is { readonly stack: string } {
  return (
    typeof value === "object" &&
    value !== null &&
    "stack" in value &&
    typeof value.stack === "string"
  );
}

function factText(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value);
  return /^[\w.:/@+-]+$/.test(value) ? value : printable(JSON.stringify(value));
}

// What comes from outside must not move a terminal's cursor or reverse its text.
function printable(text: string): string {
  return text.replace(
    /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g,
    (char) => (char === "\n" ? "\\n" : `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`),
  );
}
