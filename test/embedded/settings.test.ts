import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";

import { createDaemon, type DaemonSettings } from "postbackd";

import { readSettings } from "../../src/embedded/settings.ts";
import { temporaryFolder } from "../helpers/program.ts";

const types = { double: () => 2 };
const place = { database: "/nowhere/postbackd.db", cwd: "/srv/app" };

/** What is wrong, line by line; none where the settings are read. */
function problemsOf(settings: unknown): readonly string[] {
  try {
    readSettings(settings, place);
    return [];
  } catch (error) {
    assert.ok(error instanceof Error);
    const [head, ...lines] = error.message.split("\n");
    assert.equal(head, "createDaemon cannot start:");
    return lines;
  }
}

describe("settings that are refused", () => {
  const loop: Record<string, unknown> = {};
  loop["webhooks"] = loop;
  const cases: readonly (readonly [string, unknown, RegExp])[] = [
    ["none at all", undefined, /must be an object, \{ types/],
    ["null", null, /must be an object/],
    ["a list", [types], /must be an object/],
    ["a function", () => types, /must be an object/],
    ["no types", {}, /types is missing: give at least one/],
    ["types without one", { types: {} }, /types is missing/],
    ["a map of types", { types: new Map([["double", () => 2]]) }, /types is missing/],
    ["an unknown setting", { types, databse: "x" }, /databse is an unknown .* one is database$/],
    ["a misspelt key", { types, config: { webhooks: { alow: [] } } }, /"webhooks.alow"; .*allow/],
    ["a key of nobody", { types, config: { colour: 1 } }, /unknown key "colour"/],
    ["a prototype", { types, config: JSON.parse('{"__proto__":1}') }, /unknown key "__proto__"/],
    ["a section that is none", { types, config: { webhooks: [] } }, /webhooks must be a table/],
    ["a section of itself", { types, config: loop }, /unknown key "webhooks.webhooks"/],
    ["a map as section", { types, config: { webhooks: new Map() } }, /webhooks must be a table/],
    ["a list as config", { types, config: [] }, /config must be an object/],
    ["types within config", { types, config: { types } }, /config.types is not read: give types/],
    ["a port within config", { types, config: { port: 1 } }, /config.port is not read/],
    ["a ready file", { types, config: { ready_file: "x" } }, /config.ready_file is not read/],
    ["a dashboard", { types, config: { dashboard: true } }, /config.dashboard is not read/],
    ["a public URL", { types, config: { public_url: "x" } }, /config.public_url is not read/],
    ["a port as text", { types, port: "80" }, /port must be a whole number from 0 to 65535/],
    ["a port too high", { types, port: 65_536 }, /port must be a whole number/],
    ["half a port", { types, port: 80.5 }, /port must be a whole number/],
    ["no number for a port", { types, port: NaN }, /port must be a whole number/],
    ["null for a port", { types, port: null }, /port must be a whole number/],
    [
      "a database in memory",
      { types, database: ":memory:" },
      /database must be the path of a file/,
    ],
    ["an empty path", { types, database: "" }, /database must be a path/],
    ["a NUL in a path", { types, database: "a\0b" }, /database must be a path/],
    ["a URL for a path", { types, database: new URL("file:///x") }, /database must be a path/],
    ["a clock without timers", { types, clock: { now: Date.now } }, /clock must have now/],
    ["Date for a clock", { types, clock: Date }, /clock must have now/],
    ["a function to log with", { types, log: () => {} }, /log must be true, or a logger/],
    ["text to log", { types, log: "info" }, /log must be true, or a logger/],
    ["a type's bad name", { types: { "a b": () => 1 } }, /types."a b" must have a name of/],
    ["a type without a name", { types: { "": () => 1 } }, /must have a name of/],
    ["a type that is text", { types: { x: "echo" } }, /types.x must be a table/],
    ["a type that is null", { types: { x: null } }, /types.x must be a table/],
    ["a promise for a type", { types: { x: Promise.resolve() } }, /types.x must be a table/],
    ["a type of no kind", { types: { x: {} } }, /types.x has no kind: give a function \(run\), /],
    ["run that is none", { types: { x: { run: "echo" } } }, /types.x.run must be a function/],
    ["two kinds", { types: { x: { run: () => 1, command: ["a"] } } }, /more than one kind/],
    ["a misspelt run", { types: { x: { runn: () => 1 } } }, /runn is an unknown .* one is run$/m],
    ["a command's key", { types: { x: { run: () => 1, cwd: "/" } } }, /cwd is for command types/],
    ["a timeout by number", { types: { x: { run: () => 1, timeout: 10 } } }, /needs a unit/],
    ["no concurrency", { types: { x: { run: () => 1, concurrency: 0 } } }, /from 1 to 10000/],
    ["retries without end", { types: { x: { run: () => 1, retries: Infinity } } }, /from 0 to 100/],
    ["an open port", { types, config: { host: "0.0.0.0" } }, /plain HTTP shows every key/],
    ["a symbol for a value", { types, config: { retention_days: Symbol("x") } }, /retention_days/],
    ["a bigint for a value", { types, config: { retention_days: 1n } }, /retention_days must be/],
  ];
  for (const [name, settings, expected] of cases) {
    test(name, () => {
      assert.match(problemsOf(settings).join("\n"), expected);
    });
  }

  test("all at once, each by its key, and no secret among them", () => {
    const problems = problemsOf({
      types: { a: { url: "http://u:hunter2@x/" }, b: { command: [], env: { K: 1 } }, "c d": 5 },
      config: { webhooks: { timeout: "fast", allow: ["300.0.0.0/8"] }, limits: { body: 1 } },
      port: -1,
      typos: true,
    }).join("\n");

    for (const key of ["types.a.url", "types.b.command", "types.b.env", 'types."c d"', "port"]) {
      assert.ok(problems.includes(`- ${key} must`), `${key} in:\n${problems}`);
    }
    assert.match(problems, /- webhooks.timeout must/);
    assert.match(problems, /- webhooks.allow: '300.0.0.0\/8'/);
    assert.match(problems, /- limits.body must/);
    assert.match(problems, /- typos is an unknown setting; the nearest known one is types/);
    assert.doesNotMatch(problems, /hunter2/);
  });
});

test("settings may be undefined, as those of a program often are", () => {
  const run = (): number => 1;
  const { config, log } = readSettings(
    {
      types: { x: { run, timeout: undefined, url: undefined } },
      config: { webhooks: { allow: undefined }, limits: undefined, retention_days: undefined },
      ...{ port: undefined, database: undefined, clock: undefined, log: undefined },
    },
    place,
  );

  assert.deepEqual(config.types.get("x"), {
    ...{ kind: "function", name: "x", timeoutMs: 600_000, concurrency: 16, retries: 0, run },
  });
  const { database, port, host, retentionDays } = config;
  assert.deepEqual(
    { database, port, host, retentionDays, log },
    {
      ...{ database: place.database, port: 0, host: "127.0.0.1", retentionDays: 30, log: false },
    },
  );
});

test("every kind of type, and every key of the file, is read as in the file", () => {
  const { config } = readSettings(
    {
      types: {
        a: { run: () => 1, timeout: "10s", concurrency: 4, retries: 2 },
        b: { command: ["sh", "-c", "true"], cwd: "work" },
        c: { url: "http://127.0.0.1:9/x", headers: { A: "b" } },
        d: { runner: "worker", lease: "5s" },
        e: { runner: "echo" },
      },
      config: {
        webhooks: { allow: ["127.0.0.1:9000"], retry_after: ["1s"] },
        marketplaces: [{ code: "de", name: "Germany" }],
        limits: { result: "2KiB" },
      },
      database: "data/x.db",
      port: 8080,
    },
    place,
  );

  const kinds = [...config.types.values()].map(({ kind }) => kind);
  assert.deepEqual(kinds, ["function", "command", "http", "worker", "echo"]);
  const [a, b] = config.types.values();
  assert.ok(a?.kind === "function" && b?.kind === "command");
  assert.deepEqual([a.timeoutMs, a.concurrency, a.retries], [10_000, 4, 2]);
  assert.deepEqual([b.cwd, config.database], ["/srv/app/work", "/srv/app/data/x.db"]);
  assert.deepEqual([config.webhooks.allow, config.port], [["127.0.0.1:9000"], 8080]);
  assert.deepEqual([config.marketplaces.length, config.limits.resultBytes], [1, 2048]);
});

test("what is refused leaves no folder behind", async (t) => {
  const folder = temporaryFolder(t);
  const before = process.env["TMPDIR"];
  t.after(() => {
    if (before === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = before;
  });
  process.env["TMPDIR"] = folder;
  assert.equal(tmpdir(), folder);

  await assert.rejects(createDaemon({ types, port: -1 }), /port must be/);
  // What a program without types may give.
  await assert.rejects(createDaemon(undefined as unknown as DaemonSettings), /must be an object/);
  await assert.rejects(
    createDaemon({ types, database: join(folder, "no", "x.db") }),
    /no does not/,
  );

  assert.deepEqual(readdirSync(folder), []);
});
