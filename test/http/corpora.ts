import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

const FIXTURES = new URL("../fixtures/http/", import.meta.url);

/** The Big List of Naughty Strings. */
export function naughtyStrings(): readonly string[] {
  return strings(parse("blns.json"));
}

/** Texts that some parser takes for a URL, and hosts that some parser takes. */
export function urlTexts(): readonly string[] {
  const inputs = parse("wpt-urls.json");
  assert(typeof inputs === "object" && inputs !== null && "urls" in inputs && "hosts" in inputs);
  return [...strings(inputs.urls), ...strings(inputs.hosts).map((host) => `http://${host}/`)];
}

function parse(name: string): unknown {
  return JSON.parse(readFileSync(new URL(name, FIXTURES), "utf8"));
}

function strings(value: unknown): readonly string[] {
  assert(Array.isArray(value) && value.every((each) => typeof each === "string"));
  return value;
}
