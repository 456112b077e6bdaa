import { escapedJson, printable } from "../domain/text.ts";
import { toggle } from "./arguments.ts";

export interface Answer {
  /** With `--json`: the only document on stdout. */
  readonly document: Readonly<Record<string, unknown>>;
  /** Otherwise: lines for a person. */
  readonly lines: readonly string[];
  /** Instead of both: characters for another program, printed as they are and without a line end. */
  readonly exact?: string;
  /** The exit code if the result is a no; 0 unless given. */
  readonly exit?: number;
}

export function answer(document: Answer["document"], ...lines: readonly string[]): Answer {
  return { document, lines };
}

/** The answer of a list: a table of its rows and `end`, or the sentence `none` if it is empty. */
export function listAnswer<Row>(
  document: Answer["document"],
  rows: readonly Row[],
  { none, columns, end = [] }: ListTexts<Row>,
): Answer {
  // Lists have no bound, and arguments of a call have one.
  return { document, lines: rows.length === 0 ? [none] : [...tableLines(rows, columns), ...end] };
}

interface ListTexts<Row> {
  readonly none: string;
  readonly columns?: Columns<Row>;
  readonly end?: readonly string[];
}

/** The flag that {@link printAnswer} reads, for a command's definition. */
export const JSON_ARG = { json: toggle("Print one JSON document") };

export function printAnswer({ document, lines, exact }: Answer, isJson: boolean): void {
  if (isJson && exact === undefined) printJson(document);
  else process.stdout.write(exact ?? `${lines.join("\n")}\n`);
}

/** Prints a document on a line of stdout, without characters that a terminal would act on. */
export function printJson(document: object): void {
  process.stdout.write(`${escapedJson(JSON.stringify(document))}\n`);
}

/** Prints a sentence to stderr: also with `--json`, because stdout holds documents only. */
export function printError(message: string): void {
  process.stderr.write(`postbackd: ${message}\n`);
}

/** A value of a document that fits into a cell: the items of a list are joined, null is a dash. */
type Cell = string | number | boolean | null | undefined | readonly string[];

/** The columns of a table: the title of each with the value of a row, or fields of the rows. */
export type Columns<Row> =
  | Readonly<Record<string, (row: Row) => Cell>>
  | readonly (keyof Row & string)[];

/**
 * Rows in aligned columns, with the titles first. If the table is wider than the terminal, each row becomes a block of
 * lines: a broken line cannot be read, and a part of an id cannot be used. Shows all fields unless columns are given.
 */
export function tableLines<Row>(
  rows: readonly Row[],
  columns: Columns<Row> = Object.keys(rows[0] ?? {}) as (keyof Row & string)[],
  width: number = process.stdout.isTTY ? process.stdout.columns : Infinity,
): readonly string[] {
  const all = Array.isArray(columns)
    ? columns.map(
        (field: keyof Row & string) => [titleOf(field), (row: Row) => row[field]] as const,
      )
    : Object.entries(columns);
  const titles = all.map(([title]) => title);
  const cells = rows.map((row) => all.map(([, cell]) => printable(cellText(cell(row) as Cell))));
  const widths = titles.map((title, i) =>
    Math.max(...[title, ...cells.map((row) => row[i])].map(widthOf)),
  );
  const lines = [titles, ...cells].map((row) =>
    row
      .map((cell, i) => cell + " ".repeat((widths[i] ?? 0) - widthOf(cell)))
      .join("  ")
      .trimEnd(),
  );
  if (lines.every((line) => widthOf(line) <= width)) return lines;
  return cells.flatMap((row, i) => [
    ...(i === 0 ? [] : [""]),
    ...pairLines(titles.map((title, k) => [title, row[k]])),
  ]);
}

/** A new key or token with other facts. */
export function newSecretLines(
  facts: Readonly<Record<string, Cell>>,
  secret: "key" | "token",
): readonly string[] {
  return [...factLines(facts), "", `Store the ${secret} now: it cannot be shown again.`];
}

/** The fields of a document, a line each. */
export function factLines(document: Readonly<Record<string, Cell>>): readonly string[] {
  return pairLines(Object.entries(document));
}

function pairLines(pairs: readonly (readonly [name: string, value: Cell])[]): readonly string[] {
  const width = Math.max(...pairs.map(([name]) => widthOf(name)));
  return pairs.map(([name, value]) => `${name.padEnd(width)}  ${printable(cellText(value))}`);
}

function titleOf(field: string): string {
  return field.toUpperCase().replaceAll("_", " ");
}

/** A value for a table's cell; a dash if it does not exist. */
export function cellText(value: Cell): string {
  const text = String(value ?? "");
  return text === "" ? "-" : text;
}

/** Text for a table's cell: on one line, and cut when it is longer than `lengthMax` code points. */
export function shortText(text: string, lengthMax: number): string {
  const points = [...text.replace(/\s+/gu, " ").trim()];
  return points.length <= lengthMax ? points.join("") : `${points.slice(0, lengthMax).join("")}…`;
}

/** A number of things: `1 task`, `12,000 tasks`. */
export function countText(count: number, noun: string): string {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

export function waitingText(webhooks: number): string {
  return `${countText(webhooks, "webhook")} ${webhooks === 1 ? "waits" : "wait"}`;
}

function widthOf(cell: string | undefined): number {
  return [...(cell ?? "")].length;
}

// White space between the values of JSON: characters that a string has only as escapes.
const WHITE_SPACE = /[\t\r\n]/g;

/** A line of JSON Lines with this value, unchanged for parsers. */
export function jsonLine(json: string): string {
  return `${escapedJson(json.replace(WHITE_SPACE, " "))}\n`;
}
