import assert from "node:assert/strict";
import { describe, test } from "node:test";

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

type Case = readonly [of: Rule<unknown>, raw: unknown, verdict: Parsed<unknown>];

const value = (given: unknown): Parsed<unknown> => ({ kind: "value", value: given });
const fault = (reason: string): Parsed<unknown> => ({ kind: "fault", reason });
const itemFault = (reason: string): Parsed<unknown> => ({
  kind: "fault",
  reason,
  isOfItem: true,
});

const TO_NINE = integerBetween(1, 9);
const WHOLE = "must be a whole number from 1 to 9, not";
const LEVEL = oneOf(["low", "high"]);
const SMALL = sizeBetween(1, 4096);
const SHARE = numberBetween(0, 1);
const LINE = plainText(3);
const LINES = plainLines(3);
const LEVELS = someOf(["low", "high"]);

/** As TOML and JSON give it. */
const CASES: readonly Case[] = [
  [TO_NINE, 1, value(1)],
  [TO_NINE, 9, value(9)],
  [TO_NINE, 10, fault(`${WHOLE} 10`)],
  [TO_NINE, 0, fault(`${WHOLE} 0`)],
  [TO_NINE, 1.5, fault(`${WHOLE} 1.5`)],
  [TO_NINE, NaN, fault(`${WHOLE} NaN`)],
  [TO_NINE, "1", fault(`${WHOLE} "1"`)],
  [TO_NINE, null, fault(`${WHOLE} a table`)],
  [TO_NINE, [1], fault(`${WHOLE} a list`)],
  [SHARE, 0.5, value(0.5)],
  [SHARE, 1, value(1)],
  [SHARE, 1.01, fault("must be a number from 0 to 1, not 1.01")],
  [SHARE, NaN, fault("must be a number from 0 to 1, not NaN")],
  [SHARE, "0.5", fault('must be a number from 0 to 1, not "0.5"')],
  [LINE, "😀😀😀", value("😀😀😀")],
  [LINE, "abcd", fault(`must be ${LINE.takes}, not "abcd"`)],
  [LINE, "a\n", fault(`must be ${LINE.takes}, not "a\\n"`)],
  [LINES, "a\n", value("a\n")],
  [LINES, "\u0000", fault(`must be ${LINES.takes}, not "\\u0000"`)],
  [LEVELS, ["high", "low", "high"], value(["low", "high"])],
  [LEVELS, [], fault("must be an array of some of: low, high, not a list")],
  [LEVELS, ["low", "mid"], fault("must be an array of some of: low, high, not a list")],
  [LEVELS, "low", fault('must be an array of some of: low, high, not "low"')],
  [TRUTH, true, value(true)],
  [TRUTH, "true", fault('must be true or false, not "true"')],
  [TRUTH, 1, fault("must be true or false, not 1")],
  [LEVEL, "low", value("low")],
  [LEVEL, "Low", fault('must be one of low, high, not "Low"')],
  [LEVEL, "toString", fault('must be one of low, high, not "toString"')],
  [PLAIN_TEXT, "a b", value("a b")],
  [PLAIN_TEXT, "", fault('must be text, not empty, without control characters, not ""')],
  [PLAIN_TEXT, "\u001b[1m", fault(`must be ${PLAIN_TEXT.takes}, not "\\u001b[1m"`)],
  [PLAIN_TEXT, "\u009b1m", fault(`must be ${PLAIN_TEXT.takes}, not "\ufffd1m"`)],
  [DURATION, "1ms", value(1)],
  [DURATION, "365d", value(31_536_000_000)],
  [DURATION, "366d", fault(`must be ${DURATION.takes}, not "366d"`)],
  [DURATION, "0s", fault(`must be ${DURATION.takes}, not "0s"`)],
  [DURATION, "-1s", fault(`must be ${DURATION.takes}, not "-1s"`)],
  [DURATION, "1.5h", fault(`must be ${DURATION.takes}, not "1.5h"`)],
  [DURATION, "1 h", fault(`must be ${DURATION.takes}, not "1 h"`)],
  [DURATION, 10, fault('needs a unit: write "10s" for seconds (units: ms, s, m, h, d)')],
  [DURATION, "10", fault('needs a unit: write "10s" for seconds (units: ms, s, m, h, d)')],
  [SMALL, "1KiB", value(1024)],
  [SMALL, 4096, value(4096)],
  [SMALL, "4096", value(4096)],
  [SMALL, 4097, fault(`must be ${SMALL.takes}, not 4097`)],
  [SMALL, "1kb", fault(`must be ${SMALL.takes}, not "1kb"`)],
  [SMALL, ["1KiB"], fault(`must be ${SMALL.takes}, not a list`)],
  [HOST, "[::1]", value("::1")],
  [HOST, "Hooks.EXAMPLE", value("hooks.example")],
  [HOST, "[::1]:80", fault(`must be ${HOST.takes}, not "[::1]:80"`)],
  [HOST, 5, fault(`must be ${HOST.takes}, not 5`)],
  [listOf(TO_NINE), [], value([])],
  [listOf(TO_NINE), [1, 2], value([1, 2])],
  [listOf(TO_NINE), [1, 10], itemFault(`item 2 ${WHOLE} 10`)],
  [listOf(TO_NINE), 1, fault("must be a list, not 1")],
];

test("a rule takes what it says and refuses everything else with the same words", () => {
  for (const [of, raw, verdict] of CASES) assert.deepEqual(of.parse(raw), verdict, String(raw));
});

describe("a value that is written as text", () => {
  const texts: readonly Case[] = [
    [TO_NINE, "9", value(9)],
    [TO_NINE, "-1", fault(`${WHOLE} -1`)],
    [integerBetween(0, 9), "-0", fault('must be a whole number from 0 to 9, not "-0"')],
    [integerBetween(0, 9), "007", value(7)],
    [TO_NINE, "1e0", fault(`${WHOLE} "1e0"`)],
    [TO_NINE, "0x1", fault(`${WHOLE} "0x1"`)],
    [TO_NINE, " 1", fault(`${WHOLE} " 1"`)],
    [TO_NINE, "", fault(`${WHOLE} ""`)],
    [SHARE, "0.5", value(0.5)],
    [SHARE, ".5", fault('must be a number from 0 to 1, not ".5"')],
    [SHARE, "5e-1", fault('must be a number from 0 to 1, not "5e-1"')],
    [TRUTH, "false", value(false)],
    [TRUTH, "yes", fault('must be true or false, not "yes"')],
    [SMALL, "2KiB", value(2048)],
    [HOST, "::1", value("::1")],
    [listOf(HOST), "a, [::1],,b ", value(["a", "::1", "b"])],
  ];

  test("is read as a file's would be", () => {
    for (const [of, text, verdict] of texts) {
      assert.deepEqual(parseText(of, String(text)), verdict, String(text));
    }
  });
});

test("a rule for secrets never repeats what it was given", () => {
  const secret = rule({
    takes: "a password",
    hint: "TEXT",
    schema: { type: "string" },
    isSecret: true,
    read: () => null,
  });

  assert.deepEqual(secret.parse("hunter2"), fault("must be a password"));
});
