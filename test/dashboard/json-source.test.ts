import assert from "node:assert/strict";
import { describe, test } from "node:test";

import {
  isList,
  isObject,
  jsonText,
  memberOf,
  parseJsonSource,
} from "../../src/dashboard/task/json-source.ts";

describe("displayed JSON", () => {
  test("keeps every digit of its numbers", () => {
    const numbers = [
      "1.50",
      "9007199254740993",
      "1e400",
      "-0",
      "0.1E-7",
      "12345678901234567890.12",
    ];
    const value = parseJsonSource(`[${numbers.join(",")}]`);

    assert(isList(value));
    assert.deepEqual(
      value.map((item) => jsonText(item)),
      numbers,
    );
  });

  test("is copied as the same document", () => {
    const text = '{"a":[1,{"b":null}],"":"\\u202e\\u0000","t":true,"e":{},"l":[]}';
    const value = parseJsonSource(text);

    assert(value !== undefined);
    assert.deepEqual(JSON.parse(jsonText(value)), JSON.parse(text));
  });

  test("has names of Object.prototype as own members alone", () => {
    const value = parseJsonSource('{"__proto__": 1, "constructor": {"toString": 2}}');

    assert(isObject(value));
    assert.deepEqual(Object.keys(value), ["__proto__", "constructor"]);
    assert.equal(memberOf(value, "hasOwnProperty"), undefined);
    assert.equal(memberOf(memberOf(value, "constructor"), "valueOf"), undefined);
  });

  test("is undefined for invalid and very deep text", () => {
    assert.equal(parseJsonSource("{"), undefined);
    assert.equal(parseJsonSource("[".repeat(100_000) + "]".repeat(100_000)), undefined);
  });
});
