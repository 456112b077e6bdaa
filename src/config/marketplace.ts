import { isDate } from "node:util/types";

import { hasControl } from "../domain/text.ts";
import { isTable, type FileTable } from "./file.ts";
import type { Findings, Given } from "./layer.ts";

/** A value that both TOML and JSON can hold. */
export type JsonValue = string | number | boolean | readonly JsonValue[] | JsonObject;

export interface JsonObject {
  readonly [key: string]: JsonValue;
}

/** A marketplace that tasks may name by its code. */
export interface Marketplace {
  readonly code: string;
  readonly name: string;
  /** The other keys of its table, shown to clients as they are; dates become text. */
  readonly details: JsonObject;
}

/** Deeper details are a mistake, and the conversion is recursive. */
const DETAILS_DEPTH_MAX = 16;

/** The `[[marketplaces]]` in the order of the file; may be empty. */
export function parseMarketplaces(
  given: Given | undefined,
  findings: Findings,
): readonly Marketplace[] {
  const { raw, source } = given ?? { raw: [], source: "default" };
  findings.sources.set("marketplaces", source);
  const report = (key: string, reason: string): void => {
    findings.problems.push({ key, source, message: `${key} ${reason}` });
  };
  if (!Array.isArray(raw)) {
    report("marketplaces", "must be tables: [[marketplaces]]");
    return [];
  }
  const marketplaces: Marketplace[] = [];
  for (const [index, table] of raw.entries()) {
    const key = `marketplaces[${index}]`;
    const parsed = isTable(table) ? parseMarketplace(table) : "must be a table";
    if (typeof parsed === "string") report(key, parsed);
    else if (marketplaces.some(({ code }) => code === parsed.code)) {
      report(key, `repeats the code ${JSON.stringify(parsed.code)}`);
    } else marketplaces.push(parsed);
  }
  return Object.freeze(marketplaces);
}

/** The marketplace, or what is wrong with it: the text completes "KEY …". */
function parseMarketplace(table: FileTable): Marketplace | string {
  const { code, name, ...rest } = table;
  if (!isLabel(code, 64)) return "needs a code: a text of 1 to 64 characters";
  if (!isLabel(name, 255)) return "needs a name: a text of 1 to 255 characters";
  const details = parseDetails(rest, DETAILS_DEPTH_MAX);
  if (details === null)
    return "contains a number that JSON cannot represent, or is nested too deep";
  return Object.freeze({ code, name, details });
}

function isLabel(value: unknown, lengthMax: number): value is string {
  return (
    typeof value === "string" && value !== "" && value.length <= lengthMax && !hasControl(value)
  );
}

/** A table as a JSON object; null when JSON cannot hold it. */
function parseDetails(table: FileTable, depthLeft: number): JsonObject | null {
  if (depthLeft === 0) return null;
  const entries: [string, JsonValue][] = [];
  for (const [key, raw] of Object.entries(table)) {
    const value = parseJsonValue(raw, depthLeft);
    if (value === null) return null;
    entries.push([key, value]);
  }
  return Object.freeze(Object.fromEntries(entries));
}

function parseJsonValue(raw: unknown, depthLeft: number): JsonValue | null {
  if (typeof raw === "string" || typeof raw === "boolean") return raw;
  if (typeof raw === "number") return Number.isFinite(raw) ? raw : null;
  // A TomlDate gives the date as the file has it, with or without time and zone.
  if (isDate(raw)) return raw.toISOString();
  if (isTable(raw)) return parseDetails(raw, depthLeft - 1);
  if (!Array.isArray(raw) || depthLeft === 0) return null;
  const values: JsonValue[] = [];
  for (const element of raw) {
    const value = parseJsonValue(element, depthLeft - 1);
    if (value === null) return null;
    values.push(value);
  }
  return Object.freeze(values);
}
