import assert from "node:assert/strict";
import { test } from "node:test";

import { HOST } from "../../src/domain/address/host-name.ts";
import {
  DURATION,
  integerBetween,
  listOf,
  numberBetween,
  oneOf,
  plainLines,
  plainText,
  parseText,
  PLAIN_TEXT,
  rule,
  sizeBetween,
  someOf,
  TRUTH,
  type Parsed,
  type Rule,
} from "../../src/domain/rule.ts";

type Case = readonly [of: Rule<unknown>, raw: unknown, value?: unknown];

const TO_NINE = integerBetween(1, 9);
const LEVEL = oneOf(["low", "high"]);
const LEVELS = someOf(["low", "high"]);
const SMALL = sizeBetween(1, 4096);
const SHARE = numberBetween(0, 1);

const refusals = (of: Rule<unknown>, raws: readonly unknown[]): readonly Case[] =>
  raws.map((raw) => [of, raw]);

/** Values as TOML and JSON give them. A case without a value is refused. */
const CASES: readonly Case[] = [
  [TO_NINE, 1, 1],
  [TO_NINE, 9, 9],
  [SHARE, 0.5, 0.5],
  [SHARE, 1, 1],
  ...refusals(TO_NINE, [10, 0, 1.5, NaN, "1", null, [1]]),
  ...refusals(SHARE, [1.01, NaN, "0.5"]),
  [plainText(3), "😀😀😀", "😀😀😀"],
  [plainLines(3), "a\n", "a\n"],
  ...[...refusals(plainText(3), ["abcd", "a\n"]), ...refusals(plainLines(3), ["\0"])],
  [LEVELS, ["high", "low", "high"], ["low", "high"]],
  ...refusals(LEVELS, [[], ["low", "mid"], "low"]),
  [TRUTH, true, true],
  [LEVEL, "low", "low"],
  [PLAIN_TEXT, "a b", "a b"],
  ...[...refusals(TRUTH, ["true", 1]), ...refusals(LEVEL, ["Low", "toString"])],
  ...refusals(PLAIN_TEXT, ["", "\u001b[1m", "\u009b1m"]),
  [DURATION, "1ms", 1],
  [DURATION, "365d", 31_536_000_000],
  ...refusals(DURATION, ["366d", "0s", "-1s", "1.5h", "1 h", 10, "10"]),
  [SMALL, "1KiB", 1024],
  [SMALL, 4096, 4096],
  [SMALL, "4096", 4096],
  ...refusals(SMALL, [4097, "1kb", ["1KiB"]]),
  [HOST, "[::1]", "::1"],
  [HOST, "Hooks.EXAMPLE", "hooks.example"],
  ...refusals(HOST, ["[::1]:80", 5]),
  [listOf(TO_NINE), [], []],
  [listOf(TO_NINE), [1, 2], [1, 2]],
  ...refusals(listOf(TO_NINE), [[1, 10], 1]),
];

/** The same as a flag or an environment variable gives them. */
const TEXTS: readonly Case[] = [
  [TO_NINE, "9", 9],
  [integerBetween(0, 9), "007", 7],
  [SHARE, "0.5", 0.5],
  ...[...refusals(TO_NINE, ["-1", "1e0", "0x1", " 1", ""]), ...refusals(SHARE, [".5", "5e-1"])],
  ...[...refusals(integerBetween(0, 9), ["-0"]), ...refusals(TRUTH, ["yes"])],
  [TRUTH, "false", false],
  [SMALL, "2KiB", 2048],
  [HOST, "::1", "::1"],
  [listOf(HOST), "a, [::1],,b ", ["a", "::1", "b"]],
];

test("a rule accepts its values and refuses all others", () => {
  const verdict = (parsed: Parsed<unknown>): readonly unknown[] =>
    parsed.kind === "value" ? [parsed.value] : [];

  for (const [of, raw, ...value] of CASES) {
    assert.deepEqual(verdict(of.parse(raw)), value, String(raw));
  }
  for (const [of, text, ...value] of TEXTS) {
    assert.deepEqual(verdict(parseText(of, String(text))), value, String(text));
  }
  const ofItem = listOf(TO_NINE).parse([1, 10]);
  assert(ofItem.kind === "fault" && ofItem.isOfItem === true);
});

test("the fault of a secret does not contain the secret", () => {
  const secret = rule({
    takes: "a password",
    hint: "TEXT",
    schema: { type: "string" },
    isSecret: true,
    read: () => null,
  });

  assert.deepEqual(secret.parse("hunter2"), { kind: "fault", reason: "must be a password" });
});
