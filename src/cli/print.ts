import { toggle } from "./arguments.ts";

export interface Answer {
  /** With `--json`: the only document on stdout. */
  readonly document: Readonly<Record<string, unknown>>;
  /** Otherwise: lines for a person. */
  readonly lines: readonly string[];
  /** Instead of both: characters for another program, printed as they are and without a line end. */
  readonly exact?: string;
}

/** The flag that {@link printAnswer} needs, for a command's definition. */
export const JSON_ARG = { json: toggle("Print one JSON document") };

/** Prints a command's answer to stdout, in the form that the command line asks for. */
export function printAnswer(
  { json: isJson }: { readonly json: boolean },
  { document, lines, exact }: Answer,
): void {
  if (isJson && exact === undefined) printJson(document);
  else process.stdout.write(exact ?? `${lines.join("\n")}\n`);
}

/** Prints a document on a line of stdout, without characters that a terminal would act on. */
export function printJson(document: object): void {
  process.stdout.write(`${jsonText(document)}\n`);
}

/** Prints a sentence to stderr: also with `--json`, because stdout holds documents only. */
export function printError(message: string): void {
  process.stderr.write(`postbackd: ${message}\n`);
}

/** The columns of a table: the title of each, and what a row has there. */
export type Columns<Row> = Readonly<Record<string, (row: Row) => string | number | null>>;

/**
 * Rows in aligned columns, with the titles first. A table that is wider than the terminal has a block of lines for each
 * row instead: broken lines cannot be read, and a part of an id is of no use.
 */
export function tableLines<Row>(
  rows: readonly Row[],
  columns: Columns<Row>,
  width: number = process.stdout.isTTY ? process.stdout.columns : Infinity,
): readonly string[] {
  const lines = alignedLines(rows, columns);
  if (lines.every((line) => widthOf(line) <= width)) return lines;
  const titleWidth = Math.max(...Object.keys(columns).map(widthOf));
  return rows.flatMap((row, i) => {
    const block = Object.entries(columns).map(
      ([title, cell]) => `${title.padEnd(titleWidth)}  ${printable(cellText(cell(row)))}`,
    );
    return i === 0 ? block : ["", ...block];
  });
}

function alignedLines<Row>(rows: readonly Row[], columns: Columns<Row>): readonly string[] {
  const head = Object.keys(columns);
  const cells = Object.values(columns);
  const toCell = (value: string | number | null): string => printable(cellText(value));
  const all = [head, ...rows.map((row) => cells.map((cell) => toCell(cell(row))))];
  const widths = head.map((_name, column) => Math.max(...all.map((row) => widthOf(row[column]))));
  return all.map((row) =>
    row
      .map((cell, column) => cell + " ".repeat((widths[column] ?? 0) - widthOf(cell)))
      .join("  ")
      .trimEnd(),
  );
}

/** A value for a table's cell; a dash when there is none. */
export function cellText(value: string | number | null): string {
  return value === null || value === "" ? "-" : String(value);
}

/** Text for a table's cell: on one line, and cut when it is longer than `lengthMax` code points. */
export function shortText(text: string, lengthMax: number): string {
  const points = [...text.replace(/\s+/gu, " ").trim()];
  return points.length <= lengthMax ? points.join("") : `${points.slice(0, lengthMax).join("")}…`;
}

function widthOf(cell: string | undefined): number {
  return [...(cell ?? "")].length;
}

// Labels come from clients, and requests for access from anybody: they must not move a terminal's cursor or reverse its
// text.
const UNPRINTABLE = /[\p{Cc}\p{Cf}\u2028\u2029]/gu;

/** Text without the characters that a terminal would act on. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, "\ufffd");
}

/** Text in quotes, on one line, with escapes for invisible characters: nothing of it is lost. */
export function quotedText(text: string): string {
  return JSON.stringify(text).replace(UNPRINTABLE, escaped);
}

// The same value, without characters that a terminal would act on: JSON itself escapes only C0.
function jsonText(document: object): string {
  return JSON.stringify(document).replace(UNPRINTABLE, escaped);
}

// White space between the values of JSON: characters that a string has only as escapes.
const WHITE_SPACE = /[\t\r\n]/g;

/** A line of JSON Lines with this value, of which no character changes for whoever parses it. */
export function jsonLine(json: string): string {
  return `${json.replace(WHITE_SPACE, " ").replace(UNPRINTABLE, escaped)}\n`;
}

function escaped(text: string): string {
  const units = Array.from({ length: text.length }, (_, i) => text.charCodeAt(i));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
}
