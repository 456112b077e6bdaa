import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { findJsonFault } from "../../src/dashboard/post/json-fault.ts";

const FAULTS: readonly (readonly [text: string, line: number, column: number, expected: string])[] =
  [
    ["", 1, 1, "a value"],
    ["  ", 1, 3, "a value"],
    ["{", 1, 2, "a name in double quotes, or }"],
    ['{\n  "a": 1,\n}', 3, 1, "a name in double quotes"],
    ['{"a" 1}', 1, 6, "a colon"],
    ['{"a":}', 1, 6, "a value"],
    ['{"a":1 "b":2}', 1, 8, "a comma or }"],
    ["[1 2]", 1, 4, "a comma or ]"],
    ["[1,]", 1, 4, "a value"],
    ["[,1]", 1, 2, "a value or ]"],
    ["[1}", 1, 3, "a comma or ]"],
    ["{'a': 1}", 1, 2, "a name in double quotes, or }"],
    ["1 2", 1, 3, "nothing more"],
    ['1"', 1, 2, "nothing more"],
    ["01", 1, 2, "nothing more"],
    ["-", 1, 1, "a value"],
    ["[tru]", 1, 2, "a value or ]"],
    ['"😀" x', 1, 5, "nothing more"],
    [
      '["a\n"]',
      1,
      4,
      String.raw`the string's closing quote; line breaks and tabs in it are written \n and \t`,
    ],
    [String.raw`["a\x"]`, 1, 4, String.raw`an escape such as \n, \" or \\`],
  ];

test("a fault has its line, its column and the expected token", () => {
  for (const [text, line, column, expected] of FAULTS) {
    assert.deepEqual(findJsonFault(text), { line, column, expected }, text);
  }
});

test("JSON has no fault, and truncated JSON has one", () => {
  fc.assert(
    fc.property(fc.json(), fc.nat(), (text, cut) => {
      assert.equal(findJsonFault(text), null);
      const part = text.slice(0, cut % text.length);
      const isJson = ((): boolean => {
        try {
          JSON.parse(part);
          return true;
        } catch {
          return false;
        }
      })();
      assert.equal(findJsonFault(part) === null, isJson);
    }),
  );
});

test("a fault is at the first character that cannot continue the JSON", () => {
  const characters = fc.constantFrom(...'[]{}:,"\\ 1-.e\nau0');
  fc.assert(
    fc.property(fc.string({ unit: characters, maxLength: 12 }), (text) => {
      const fault = findJsonFault(text);
      if (fault === null) return;
      const at = placeOf(text, fault);
      assert(at >= 0 && at <= text.length);
      // The text before the fault can still become JSON.
      const before = findJsonFault(`${text.slice(0, at)}`);
      assert(before === null || placeOf(text, before) === at, JSON.stringify(text));
    }),
  );
});

function placeOf(text: string, { line, column }: { line: number; column: number }): number {
  const lines = text.split("\n").slice(0, line - 1);
  return lines.join("\n").length + (line > 1 ? 1 : 0) + column - 1;
}

test("a fault at 200,000 levels or after a long string is found", () => {
  const deep = "[".repeat(200_000);
  assert.equal(findJsonFault(deep)?.column, 200_001);
  const long = `"${String.raw`a\n`.repeat(200_000)}`;
  assert.equal(findJsonFault(long)?.column, 600_002);
});
