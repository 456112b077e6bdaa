import assert from "node:assert/strict";
import { test } from "node:test";

import type { CommandTypeConfig } from "../../src/config.ts";
import { CWD, loaded, problemOf, problemsOf } from "../helpers/config.ts";
import type { Setup } from "../helpers/config.ts";

test("reads a command type with all its keys", () => {
  const toml = [
    "[types.resize]",
    'command = ["python3", "resize.py"]',
    'timeout = "30s"',
    "concurrency = 2",
    "retries = 3",
    'cwd = "work"',
    'env = { LANG = "C", __proto__ = "x" }',
  ].join("\n");
  const config = loaded({ flags: { config: "/etc/p.toml" }, files: { "/etc/p.toml": toml } });

  const type = config.types.get("resize");
  const expected: Omit<CommandTypeConfig, "env"> = {
    kind: "command",
    name: "resize",
    timeoutMs: 30_000,
    concurrency: 2,
    retries: 3,
    command: ["python3", "resize.py"],
    cwd: "/etc/work",
  };
  assert.ok(type?.kind === "command");
  const { env, ...rest } = type;
  assert.deepEqual(rest, expected);
  assert.deepEqual(Object.entries(env), [
    ["LANG", "C"],
    ["__proto__", "x"],
  ]);
  assert.deepEqual([...config.types.keys()], ["resize"]);
  assert.equal(config.sources.get("types.resize.timeout"), "file /etc/p.toml");
});

test("runs a command in the folder of the file where it names none", () => {
  const type = loaded({ toml: '[types.x]\ncommand = ["./x"]' }).types.get("x");

  assert.equal(type?.kind === "command" ? type.cwd : null, CWD);
  assert.equal(type?.retries, 0);
});

test("refuses a type without a kind, with two, or with keys of another", () => {
  const cases: readonly [string, RegExp][] = [
    ["", /types\.x has no kind: give runner = "echo" or command/],
    ['runner = "echo"\ncommand = ["ls"]', /more than one kind \(runner, command\)/],
    ['command = ["ls"]\nurl = "http://x"', /more than one kind \(command, url\)/],
    ['runner = "ecko"', /types\.x\.runner must be "echo", not "ecko"/],
    ['runner = "echo"\ncwd = "/"', /types\.x\.cwd is for command types only, and this one is echo/],
    ['command = ["ls"]\nlease = "1s"', /types\.x\.lease is for worker types only/],
    ["command = []", /types\.x\.command must be a list of texts/],
    ['command = [""]', /must be a list of texts/],
    ['command = ["ls", 5]', /must be a list of texts/],
    ['command = ["ls", "a\\u0000"]', /must be a list of texts/],
    ['command = "ls -l"', /no shell reads it/],
    ['command = ["ls"]\nenv = { A = 1 }', /types\.x\.env must give a text without NUL for A/],
    ['command = ["ls"]\nenv = { "A=B" = "" }', /name that is empty or holds =/],
    ['command = ["ls"]\nenv = ["A=1"]', /must be a table of texts/],
    ['runner = "echo"\nretries = -1', /from 0 to 100/],
    ['runner = "echo"\nretries = 101', /from 0 to 100/],
    ['runner = "echo"\nconcurrency = 0', /from 1 to/],
    ['runner = "echo"\ntimeout = 10', /needs a unit/],
  ];

  for (const [rows, expected] of cases) {
    assert.match(problemOf({ toml: `[types.x]\n${rows}` }), expected);
  }
  assert.match(problemOf({ toml: "types = 1" }), /types must be tables/);
  assert.match(problemOf({ toml: "types.x = 1" }), /types\.x must be a table/);
});

test("never shows what a type's command or environment holds", () => {
  const rows = ['command = ["x", "hunter2", 1]', 'env = { A = "hunter2", B = ["hunter2"] }'];
  const problems = problemsOf({ toml: `[types.x]\n${rows.join("\n")}` });

  assert.equal(problems.length, 2);
  assert.doesNotMatch(problems.join("\n"), /hunter2/);
});

test("takes type names of 1 to 64 characters out of A-Z a-z 0-9 . _ -", () => {
  const typesWith = (name: string): Setup => ({
    toml: `[types.${JSON.stringify(name)}]\nrunner = "echo"`,
  });

  for (const name of ["a", "A.b_c-9", "x".repeat(64), "__proto__", "constructor", "toString"]) {
    assert.deepEqual([...loaded(typesWith(name)).types.keys()], [name]);
  }
  for (const name of ["", "a b", "é", "x".repeat(65), "a/b"]) {
    assert.match(problemOf(typesWith(name)), /must have a name of 1 to 64 characters/);
  }
});

test("keeps marketplaces in order with everything their tables say", () => {
  const toml = [
    "[[marketplaces]]",
    'code = "us"',
    'name = "United States"',
    'currency = "USD"',
    "opened = 2020-01-02",
    "[marketplaces.tax]",
    "rates = [1, 2.5]",
    "[[marketplaces]]",
    'code = "de"',
    'name = "Deutschland"',
  ].join("\n");

  assert.deepEqual(loaded({ toml }).marketplaces, [
    {
      code: "us",
      name: "United States",
      details: { currency: "USD", opened: "2020-01-02", tax: { rates: [1, 2.5] } },
    },
    { code: "de", name: "Deutschland", details: {} },
  ]);
});

test("refuses marketplaces without code or name, twice the same, or beyond JSON", () => {
  const cases: readonly [string, RegExp][] = [
    ['[[marketplaces]]\nname = "x"', /marketplaces\[0\] needs a code/],
    ['[[marketplaces]]\ncode = "x"', /marketplaces\[0\] needs a name/],
    ['[[marketplaces]]\ncode = 1\nname = "x"', /needs a code/],
    ['[[marketplaces]]\ncode = "x"\nname = "x"\nrate = nan', /number that JSON cannot write/],
    ['[marketplaces]\ncode = "x"', /must be tables: \[\[marketplaces\]\]/],
    ["marketplaces = [1]", /marketplaces\[0\] must be a table/],
    [`marketplaces = [${'{ code = "x", name = "x" },'.repeat(2)}]`, /repeats the code "x"/],
  ];

  for (const [toml, expected] of cases) assert.match(problemOf({ toml }), expected);
});
