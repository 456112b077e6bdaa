import assert from "node:assert/strict";
import { test } from "node:test";

import { readSettings } from "../../src/embedded/settings.ts";
import { assertSentences } from "../helpers/sentences.ts";

const types = { double: () => 2 };
const loop: Record<string, unknown> = {};
loop["webhooks"] = loop;

const WRONG: readonly (readonly [cause: string, settings: unknown])[] = [
  ["no settings", undefined],
  ["null", null],
  ["a list", [types]],
  ["a function", () => types],
  ["no types", {}],
  ["no type", { types: {} }],
  ["a map of types", { types: new Map([["double", () => 2]]) }],
  ["an unknown setting", { types, databse: "x" }],
  ["a misspelt key", { types, config: { webhooks: { alow: [] } } }],
  ["an unknown key", { types, config: { colour: 1 } }],
  ["a prototype", { types, config: JSON.parse('{"__proto__":1}') }],
  ["a list as section", { types, config: { webhooks: [] } }],
  ["a section of itself", { types, config: loop }],
  ["a map as section", { types, config: { webhooks: new Map() } }],
  ["a list as config", { types, config: [] }],
  ["types in config", { types, config: { types } }],
  ["a port in config", { types, config: { port: 1 } }],
  ["a ready file in config", { types, config: { ready_file: "x" } }],
  ["a dashboard in config", { types, config: { dashboard: true } }],
  ["a public URL in config", { types, config: { public_url: "x" } }],
  ["a text as port", { types, port: "80" }],
  ["a port too high", { types, port: 65_536 }],
  ["a fraction as port", { types, port: 80.5 }],
  ["NaN as port", { types, port: NaN }],
  ["null as port", { types, port: null }],
  ["a database in memory", { types, database: ":memory:" }],
  ["an empty path", { types, database: "" }],
  ["a NUL in a path", { types, database: "a\0b" }],
  ["a URL as path", { types, database: new URL("file:///x") }],
  ["a clock without timers", { types, clock: { now: Date.now } }],
  ["Date as clock", { types, clock: Date }],
  ["a function as log", { types, log: () => {} }],
  ["a text as log", { types, log: "info" }],
  ["a type with a space in its name", { types: { "a b": () => 1 } }],
  ["a type with an empty name", { types: { "": () => 1 } }],
  ["a text as type", { types: { x: "echo" } }],
  ["null as type", { types: { x: null } }],
  ["a promise as type", { types: { x: Promise.resolve() } }],
  ["a type without a kind", { types: { x: {} } }],
  ["a text as run", { types: { x: { run: "echo" } } }],
  ["two kinds", { types: { x: { run: () => 1, command: ["a"] } } }],
  ["a misspelt run", { types: { x: { runn: () => 1 } } }],
  ["a key of commands", { types: { x: { run: () => 1, cwd: "/" } } }],
  ["a number as timeout", { types: { x: { run: () => 1, timeout: 10 } } }],
  ["concurrency 0", { types: { x: { run: () => 1, concurrency: 0 } } }],
  ["infinite retries", { types: { x: { run: () => 1, retries: Infinity } } }],
  ["plain HTTP beyond loopback", { types, config: { host: "0.0.0.0" } }],
  ["a symbol as value", { types, config: { retention_days: Symbol("x") } }],
  ["a bigint as value", { types, config: { retention_days: 1n } }],
];

/** The problems, one to a line. */
function problemsOf(settings: unknown): string {
  try {
    readSettings(settings, { database: "/nowhere/postbackd.db", cwd: "/srv/app" });
  } catch (error) {
    assert.ok(error instanceof Error);
    return error.message.split("\n").slice(1).join("\n    ");
  }
  return assert.fail("the settings are accepted");
}

test("each problem of createDaemon's settings has its sentence", (t) => {
  const sentences = WRONG.map(([cause, settings]) => [cause, problemsOf(settings)] as const);
  assertSentences(t, import.meta.dirname, sentences);
});
