import { readFileSync } from "node:fs";
import { dirname } from "node:path";

import { parse, TomlError } from "smol-toml";

import { codeOf } from "../domain/error.ts";
import { quote } from "../domain/rule.ts";
import { type Findings, type Given, type Layer, unknownNameMessage } from "./layer.ts";
import { SETTING_LIST, SETTING_SECTIONS } from "./setting.ts";

export interface ConfigFile {
  /** Absolute path; null without a file. */
  readonly path: string | null;
  /** The settings, and unchecked under their names the tables of {@link OPEN_TABLES}. */
  readonly layer: Layer;
  /** The first line that sets a key or begins its table, from 1; undefined if no line does so. */
  readonly lineOf: (key: string) => number | undefined;
}

/** A TOML table. smol-toml gives it no prototype, so `__proto__` is a key like any other. */
export type FileTable = Readonly<Record<string, unknown>>;

/** Tables whose names the operator chooses, not {@link SETTING_LIST}. */
const OPEN_TABLES = ["types", "marketplaces"];

const TABLES = [...SETTING_SECTIONS, ...OPEN_TABLES];

const FILE_KEYS: readonly string[] = SETTING_LIST.filter(({ inFile }) => inFile).map(
  ({ key }) => key,
);

/** Deeper nesting is a mistake, and the parser is recursive. */
const TOML_DEPTH_MAX = 64;

/** Reads the file, if there is one, and sorts its content; every unknown key is a problem. */
export function readConfigFile(
  file: {
    readonly path: string;
    readonly source: string;
    readonly mustExist: boolean;
    /** The remedy where it cannot be read; null where the error says enough. */
    readonly remedy: string | null;
  },
  by: { readonly readFile: (path: string) => string | null; readonly findings: Findings },
): ConfigFile {
  const unusable = (message: string, source = file.source): ConfigFile => {
    by.findings.problems.push({ key: "config", source, message });
    return { path: file.path, ...NOTHING };
  };
  let text: string | null;
  try {
    text = by.readFile(file.path);
  } catch (error) {
    const remedy = file.remedy === null ? "" : `: ${file.remedy}`;
    return unusable(`${file.path} cannot be read (${codeOf(error) ?? "unknown error"})${remedy}`);
  }
  if (text === null) {
    if (file.mustExist) return unusable(`file ${file.path} does not exist`);
    return { path: null, ...NOTHING };
  }
  try {
    const table = parse(text, { maxDepth: TOML_DEPTH_MAX });
    const { path } = file;
    const place = { path, source: `file ${path}`, folder: dirname(path) };
    const sorted = sortTable(table, { ...place, findings: by.findings });
    return { ...sorted, lineOf: (key) => keysByLine(text).indexOf(key) + 1 || undefined };
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const { line, column } = error;
    // Any other name may be a line of a text, and so a secret.
    const key = FILE_KEYS.find((known) => known === keysByLine(text)[line - 1]);
    const place = `line ${line}, column ${column}${key === undefined ? "" : `, at ${key}`}`;
    return unusable(`${place}: ${tomlReason(error)}`, `file ${file.path}`);
  }
}

const NOTHING = { layer: new Map(), lineOf: () => undefined } as const;

const HEADER = /^\s*\[\[?\s*([^\]]+?)\s*\]/;
const ASSIGNMENT =
  /^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=/;

/** The key or table that each line begins, if any. The parser does not report the places of values. */
function keysByLine(text: string): readonly (string | undefined)[] {
  let table = "";
  return text.split("\n").map((line) => {
    const header = HEADER.exec(line)?.[1]?.replaceAll(/\s*\.\s*/g, ".");
    const name = ASSIGNMENT.exec(line)?.[1]?.replaceAll(/\s*\.\s*/g, ".");
    table = header ?? table;
    return header ?? (name === undefined || table === "" ? name : `${table}.${name}`);
  });
}

/** The source of the settings of a program that embeds the daemon, in the place of the file. */
export const EMBEDDING_SOURCE = "createDaemon";

/** As {@link readConfigFile}, for tables that were made in memory; relative paths are relative to `folder`. */
export function readConfigTable(
  table: FileTable,
  { folder, findings }: { readonly folder: string; readonly findings: Findings },
): ConfigFile {
  const sorted = sortTable(table, { path: null, source: EMBEDDING_SOURCE, folder, findings });
  return { ...sorted, lineOf: () => undefined };
}

/** The text of a file; null if it does not exist. Throws when it cannot be read or is not UTF-8. */
export function readFileText(path: string): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(readFileSync(path));
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
}

/** True for a table: not for lists, dates and other objects. */
export function isTable(value: unknown): value is FileTable {
  return Object.prototype.toString.call(value) === "[object Object]";
}

/** A key as TOML writes it in a dotted name, in quotes unless it is bare: `"a.b"` is one key. */
export function keyPart(name: string): string {
  return /^[A-Za-z0-9_-]+$/.test(name) ? name : quote(name);
}

function sortTable(
  table: FileTable,
  file: Pick<ConfigFile, "path"> & Omit<Given, "raw"> & { readonly findings: Findings },
): Omit<ConfigFile, "lineOf"> {
  const layer = new Map<string, Given>();
  const { source, folder } = file;
  const report = (key: string, message: string): void => {
    file.findings.problems.push({ key, source, message });
  };
  const place = (key: string, raw: unknown): void => {
    if (FILE_KEYS.includes(key)) layer.set(key, { raw, source, folder });
    else report(key, unknownNameMessage(key, { what: "key", others: TABLES }));
  };
  const placeOne = (key: string, value: unknown): void => {
    if (!SETTING_SECTIONS.includes(key)) place(key, value);
    else if (!isTable(value)) report(key, `${key} must be a table: [${key}]`);
    else for (const [name, raw] of Object.entries(value)) placeOne(`${key}.${keyPart(name)}`, raw);
  };
  for (const [name, value] of Object.entries(table)) {
    if (OPEN_TABLES.includes(name)) layer.set(name, { raw: value, source, folder });
    else placeOne(keyPart(name), value);
  }
  return { path: file.path, layer };
}

/** The parser's reason without its excerpt, because lines of the file may hold secrets. */
function tomlReason(error: TomlError): string {
  return (error.message.split("\n", 1)[0] ?? "").replace(/^Invalid TOML document: /, "");
}
