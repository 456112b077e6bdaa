import assert from "node:assert/strict";
import { test } from "node:test";

import { flag, flags, optionalWord, rest, TEXT, toggle, word } from "../../src/cli/arguments.ts";
import { readArguments } from "../../src/cli/command.ts";

const ARGS = {
  login: word(TEXT, ""),
  label: flag(TEXT, ""),
  db: flags(TEXT, ""),
  json: toggle(""),
};

test("a repeated flag keeps every value in order, in both notations", () => {
  const args = readArguments(["--db=a", "alice", "--db", "b", "--label=--json"], ARGS);

  assert.deepEqual(args, { login: "alice", label: "--json", db: ["a", "b"], json: false });
});

test("a boolean flag is taken alone, as true and as false", () => {
  for (const [words, value] of [
    [["--json"], true],
    [["--json=true"], true],
    [["--json=false"], false],
  ] as const) {
    assert.equal(readArguments(["alice", ...words], ARGS).json, value);
  }
});

test("a rest argument takes all remaining words", () => {
  const definitions = { ...ARGS, command: rest("") };

  const args = readArguments(["alice", "--", "sh", "-c", "--db"], definitions);

  assert.deepEqual(args.command, ["sh", "-c", "--db"]);
  assert.throws(() => readArguments(["alice", "--"], definitions), { name: "UsageError" });
});

test("words after -- are arguments", () => {
  assert.equal(readArguments(["--", "--json"], ARGS).login, "--json");
});

// sentences.txt has the messages.
const REFUSED: readonly (readonly string[])[] = [
  ["alice", "--lable", "x"],
  ["alice", "--no-json"],
  ["alice", "--login", "x"],
  ["alice", "-x"],
  ["alice", "--__proto__"],
  ["alice", "--\u001b[2J"],
  ["alice", "--db"],
  ["alice", "--db", "--json"],
  ["alice", "--json=maybe"],
  ["alice", "bob"],
  ["--json"],
];

test("an unknown flag, a missing value or a surplus word is refused", () => {
  for (const words of REFUSED) {
    assert.throws(() => readArguments(words, ARGS), { name: "UsageError", message: /^[ -~]+$/ });
  }
});

test("a dash is a value, and an optional word may be missing", () => {
  const args = { file: optionalWord(TEXT, ""), body: flag(TEXT, "") };

  assert.deepEqual(readArguments(["--body", "-"], args), { file: null, body: "-" });
  assert.equal(readArguments(["x"], args).file, "x");
  assert.throws(() => readArguments(["x", "y"], args), { name: "UsageError" });
});
