import assert from "node:assert/strict";
import { test } from "node:test";

import { runCommand, type ArgsDef } from "citty";

import { flag, flags, optionalWord, rest, TEXT, toggle, word } from "../../src/cli/arguments.ts";
import { readArguments } from "../../src/cli/command.ts";
import { startCommand } from "../../src/cli/start.ts";

const ARGS = {
  login: word(TEXT, ""),
  label: flag(TEXT, ""),
  db: flags(TEXT, ""),
  json: toggle(""),
};

test("keeps every value of a flag, in order, with both ways to write it", () => {
  const args = readArguments(["--db=a", "alice", "--db", "b", "--label=--json"], ARGS);

  assert.deepEqual(args, { login: "alice", label: "--json", db: ["a", "b"], json: false });
});

test("takes a boolean flag alone, as true and as false", () => {
  for (const [words, value] of [
    [["--json"], true],
    [["--json=true"], true],
    [["--json=false"], false],
  ] as const) {
    assert.equal(readArguments(["alice", ...words], ARGS).json, value);
  }
});

test("gives all the words that are left to an argument that takes them", () => {
  const definitions = { ...ARGS, command: rest("") };

  const args = readArguments(["alice", "--", "sh", "-c", "--db"], definitions);

  assert.deepEqual(args.command, ["sh", "-c", "--db"]);
  assert.throws(() => readArguments(["alice", "--"], definitions), {
    message: "COMMAND is missing",
  });
});

test("takes what stands behind -- as arguments", () => {
  assert.equal(readArguments(["--", "--json"], ARGS).login, "--json");
});

const REFUSED: readonly [words: readonly string[], message: string | RegExp][] = [
  [["alice", "--lable", "x"], 'unknown flag "--lable"; the nearest known one is --label'],
  [["alice", "--no-json"], 'unknown flag "--no-json"; the nearest known one is --json'],
  [["alice", "--login", "x"], /^unknown flag "--login"/],
  [["alice", "-x"], /^unknown flag "-x"/],
  [["alice", "--__proto__"], /^unknown flag "--__proto__"/],
  [["alice", "--\u001b[2J"], /^unknown flag "--\\u001b\[2J"/],
  [["alice", "--db"], "--db needs a value"],
  [["alice", "--db", "--json"], /^--db needs a value, and "--json" looks like a flag/],
  [["alice", "--json=maybe"], '--json takes no value but true and false, not "maybe"'],
  [["alice", "bob"], 'unexpected argument "bob"'],
  [["--json"], "LOGIN is missing"],
];

for (const [words, message] of REFUSED) {
  test(`refuses ${JSON.stringify(words.join(" "))}`, () => {
    assert.throws(() => readArguments(words, ARGS), { name: "UsageError", message });
  });
}

test("start names the file's key and the variable of a setting that has no flag", async () => {
  const run = (...words: string[]): Promise<unknown> =>
    runCommand<ArgsDef>(startCommand, { rawArgs: words });

  await assert.rejects(run("--webhooks-timeout", "3s"), { message: /POSTBACKD_WEBHOOKS_TIMEOUT/ });
  await assert.rejects(run("--limits-requests-per-minute", "5"), {
    message: /limits\.requests_per_minute in the file and POSTBACKD_LIMITS_REQUESTS_PER_MINUTE/,
  });
});

test("takes a dash for the value that it is, and a positional argument that may be left out", () => {
  const args = { file: optionalWord(TEXT, ""), body: flag(TEXT, "") };

  assert.deepEqual(readArguments(["--body", "-"], args), { file: null, body: "-" });
  assert.equal(readArguments(["x"], args).file, "x");
  assert.throws(() => readArguments(["x", "y"], args), { message: /^unexpected argument "y"/ });
});
