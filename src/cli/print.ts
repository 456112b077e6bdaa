import type { Arguments } from "./arguments.ts";
import { isSet } from "./arguments.ts";

/** What a command has to say, in both forms. */
export interface Answer {
  /** With `--json`: the one document on stdout. */
  readonly document: Readonly<Record<string, unknown>>;
  /** Else: lines for a person. */
  readonly lines: readonly string[];
}

/** Prints a command's answer to stdout, as the command line asks for it. */
export function printAnswer(args: Arguments, { document, lines }: Answer): void {
  const text = isSet(args, "json") ? JSON.stringify(document) : lines.join("\n");
  process.stdout.write(`${text}\n`);
}

/** Prints a sentence to stderr: with `--json` too, so that stdout holds one document or nothing. */
export function printError(message: string): void {
  process.stderr.write(`postbackd: ${message}\n`);
}

/** Rows in aligned columns, the head first. */
export function tableLines(
  head: readonly string[],
  rows: readonly (readonly string[])[],
): readonly string[] {
  const all = [head, ...rows.map((row) => row.map(printable))];
  const widths = head.map((_name, column) => Math.max(...all.map((row) => widthOf(row[column]))));
  return all.map((row) =>
    row
      .map((cell, column) => cell + " ".repeat((widths[column] ?? 0) - widthOf(cell)))
      .join("  ")
      .trimEnd(),
  );
}

/** RFC 3339 in UTC with milliseconds. */
export function timeText(timeMs: number): string {
  return new Date(timeMs).toISOString();
}

/** As {@link timeText}; null stays. */
export function timeOrNull(timeMs: number | null): string | null {
  return timeMs === null ? null : timeText(timeMs);
}

/** A value for a table's cell; a dash where there is none. */
export function cellText(value: string | null): string {
  return value === null || value === "" ? "-" : value;
}

function widthOf(cell: string | undefined): number {
  return [...(cell ?? "")].length;
}

// Labels come from clients: they must not move a terminal's cursor or reverse its text.
function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, "\ufffd");
}
