import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const FIXTURES = new URL("../fixtures/http/", import.meta.url);
const SHARED = new URL("../../../shared/corpora/", import.meta.url);

/** Bodies by name: `y_` is JSON, `n_` is none, `i_` may be either. */
export function jsonBodies(): readonly (readonly [string, Buffer])[] {
  const files = parse("json-test-suite.json");
  assert(typeof files === "object" && files !== null);
  return Object.entries(files).map(([name, base64]) => [name, Buffer.from(base64, "base64")]);
}

/** The Big List of Naughty Strings. */
export function naughtyStrings(): readonly string[] {
  return strings(parse("blns.json"));
}

/** Texts that are URLs to some parser, and hosts that are to some. */
export function urlTexts(): readonly string[] {
  const inputs = parse("wpt-urls.json");
  assert(typeof inputs === "object" && inputs !== null && "urls" in inputs && "hosts" in inputs);
  return [...strings(inputs.urls), ...strings(inputs.hosts).map((host) => `http://${host}/`)];
}

/** Every file of the whole JSONTestSuite, where it is beside this repository; null elsewhere. */
export function sharedJsonBodies(): readonly (readonly [string, Buffer])[] | null {
  if (!existsSync(SHARED)) return null;
  return ["test_parsing", "test_transform"].flatMap((folder) => {
    const from = fileURLToPath(new URL(`JSONTestSuite/${folder}/`, SHARED));
    return readdirSync(from).map((name) => [name, readFileSync(join(from, name))] as const);
  });
}

/** Every input of the URL tests, relative ones too, where they are beside this repository. */
export function sharedUrlTexts(): readonly string[] | null {
  if (!existsSync(SHARED)) return null;
  const file = new URL("wpt-url/urltestdata.json", SHARED);
  const entries: unknown = JSON.parse(readFileSync(file, "utf8"));
  assert(Array.isArray(entries));
  return entries.flatMap((entry: unknown) => {
    const isCase = typeof entry === "object" && entry !== null && "input" in entry;
    return isCase && typeof entry.input === "string" ? [entry.input] : [];
  });
}

function parse(name: string): unknown {
  return JSON.parse(readFileSync(new URL(name, FIXTURES), "utf8"));
}

function strings(value: unknown): readonly string[] {
  assert(Array.isArray(value) && value.every((each) => typeof each === "string"));
  return value;
}
