import { fstatSync } from "node:fs";

import { pino, type DestinationStream } from "pino";

import type { Logger, LogLine } from "./domain/log.ts";

export interface LogOptions {
  readonly level: "debug" | "info" | "warn" | "error" | "silent";
  readonly format: "json" | "text";
  /** The destination of lines: standard error unless given. */
  readonly write?: (line: string) => void;
  /** True if journald reads the lines: each begins with its priority. By default, whether journald reads standard error. */
  readonly isJournal?: boolean;
}

/** A log that remembers its last lines. */
export interface RecentLogger extends Logger {
  /** From now on writes lines of this level and of more severe levels. */
  readonly setLevel: (level: LogOptions["level"]) => void;
  /** The last {@link RECENT_LINES_MAX} lines that were written, from info up, newest last. */
  recent(): readonly LogLine[];
}

/** How many lines are remembered. */
export const RECENT_LINES_MAX = 200;

/** A remembered message, and its facts, are cut after this many characters. */
const RECENT_TEXT_MAX = 4000;

/** Makes the program's log: JSON lines, or text for a person at a terminal. */
export function createLogger({
  level,
  format,
  write = (line) => process.stderr.write(line),
  isJournal = isStderrJournal(),
}: LogOptions): RecentLogger {
  const sink: DestinationStream = { write };
  const lines: LogLine[] = [];
  const stream: DestinationStream = {
    write(line) {
      // Debug lines are many, and are not read here.
      const parts = format === "json" && line.startsWith(DEBUG) ? null : toParts(line);
      const text = format === "json" || parts === null ? line : toText(parts);
      sink.write(isJournal ? withPriority(text, line) : text);
      if (parts !== null) remember(parts, lines);
    },
  };
  const options = { level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  const logger = pino({ ...options, formatters: { level: (label) => ({ level: label }) } }, stream);
  return {
    debug: (facts, message) => logger.debug(facts, message),
    info: (facts, message) => logger.info(facts, message),
    warn: (facts, message) => logger.warn(facts, message),
    error: (facts, message) => logger.error(facts, message),
    recent: () => [...lines],
    setLevel(next) {
      logger.level = next;
    },
  };
}

const DEBUG = '{"level":"debug"';

/** True if journald reads standard error, by systemd.exec(5), `$JOURNAL_STREAM`. */
function isStderrJournal(): boolean {
  const stream = process.env["JOURNAL_STREAM"];
  if (stream === undefined) return false;
  try {
    const { dev, ino } = fstatSync(2, { bigint: true });
    return stream === `${dev}:${ino}`;
  } catch {
    return false;
  }
}

/** The priorities of sd-daemon(3). journald removes the prefix. */
const PRIORITIES: Readonly<Record<string, string>> = {
  debug: "<7>",
  info: "<6>",
  warn: "<4>",
  error: "<3>",
};

const LEVEL = /^\{"level":"(\w+)"/;

// journald stores each line of a stack as an entry of its own.
function withPriority(text: string, jsonLine: string): string {
  const priority = PRIORITIES[LEVEL.exec(jsonLine)?.[1] ?? ""] ?? "";
  return text.replaceAll(/^(?=.)/gm, priority);
}

const RECENT_LEVELS = ["info", "warn", "error"] as const;

function remember(parts: LineParts, lines: LogLine[]): void {
  const level = RECENT_LEVELS.find((each) => each === parts.level);
  if (level === undefined) return;
  const { time, message, pairs, stack } = parts;
  const facts = [pairs.join(" "), ...(stack === null ? [] : [stack])].join("\n").trim();
  lines.push({ time, level, message: cut(message), facts: cut(facts) });
  if (lines.length > RECENT_LINES_MAX) lines.shift();
}

// Half a pair would no longer be text.
function cut(text: string): string {
  return text.length <= RECENT_TEXT_MAX
    ? text
    : `${text.slice(0, RECENT_TEXT_MAX).toWellFormed()}…`;
}

/** A line's parts, read from the JSON line so that all forms say the same. */
interface LineParts {
  readonly time: string;
  readonly level: string;
  readonly message: string;
  /** `key=value`. */
  readonly pairs: readonly string[];
  readonly stack: string | null;
}

function toParts(line: string): LineParts | null {
  const parsed: unknown = JSON.parse(line);
  if (typeof parsed !== "object" || parsed === null) return null;
  const { time, level, msg, err, ...facts } = { time: "", level: "", msg: "", ...parsed } as Record<
    string,
    unknown
  >;
  return {
    time: String(time),
    level: String(level),
    message: String(msg),
    pairs: Object.entries(facts).map(([key, value]) => `${key}=${factText(value)}`),
    stack: isError(err) ? printable(err.stack).replaceAll("\\n", "\n") : null,
  };
}

// `2026-01-31T09:00:00.000Z WARN  message key=value …`
function toText({ time, level, message, pairs, stack }: LineParts): string {
  const head = [time, level.toUpperCase().padEnd(5), message, ...pairs].join(" ");
  return stack === null ? `${head}\n` : `${head}\n${stack}\n`;
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

// Text from outside must not move a terminal's cursor or reverse its text.
function printable(text: string): string {
  return text.replace(
    /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g,
    (char) => (char === "\n" ? "\\n" : `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`),
  );
}
