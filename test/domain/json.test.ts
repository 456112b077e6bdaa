import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";

import fc from "fast-check";

import { ChunkShares, TURN_CHUNKS_MAX, UNCOUNTED_CHUNKS } from "../../src/domain/json/chunks.ts";
import {
  JSON_DEPTH_MAX,
  compactJson,
  isDeeperThan,
  isJsonObject,
  parseJsonBytes,
  toJsonText,
  toPlainNumber,
  type JsonReading,
} from "../../src/domain/json/json.ts";
import { cpuMsOf } from "../helpers/cpu-time.ts";

function parseJsonText(text: string, reading?: JsonReading) {
  return parseJsonBytes(Buffer.from(text), reading);
}

function parsed(text: string): unknown {
  const document = parseJsonText(text);
  assert(document.kind === "json", `${text.slice(0, 60)} is refused`);
  return document.value;
}

function roundTrip(text: string): string {
  return toJsonText(parsed(text));
}

const digits = (min: number, max: number) =>
  fc.string({ unit: fc.constantFrom(..."0123456789"), minLength: min, maxLength: max });
const integer = fc.oneof(
  fc.constant("0"),
  fc.tuple(fc.constantFrom(..."123456789"), digits(0, 30)).map(([first, rest]) => first + rest),
);
const fraction = fc.option(
  fc
    .tuple(fc.constantFrom("", "0", "00000", "000000", "9999999"), digits(1, 25))
    .map(([zeros, rest]) => `.${zeros}${rest}`),
  { nil: "" },
);
const exponent = fc.option(
  fc
    .tuple(fc.constantFrom("e", "E"), fc.constantFrom("", "+", "-"), digits(1, 5))
    .map((parts) => parts.join("")),
  { nil: "" },
);
/** Every form that a JSON number can have. */
const numberLiteral = fc
  .tuple(fc.constantFrom("", "-"), integer, fraction, exponent)
  .map((parts) => parts.join(""));

describe("numbers", () => {
  test("keep every digit", () => {
    const literals = [
      ...["0", "-0", "1.0", "1.10", "-1.50", "0.0", "-0.0", "1e5", "1E5", "1e+5", "1E-05", "0e0"],
      ...["12345678901234567890", "9007199254740993", "-9007199254740993", "123456789012345.6789"],
      ...["0.1", "0.1234567890123456789", "0.000001", "0.0000001", "1e400", "-1e400", "1e-400"],
      ...["100000000000000000000", "1000000000000000000000", "3.141592653589793238462643383279"],
      ...["5e-324", "1.7976931348623157e308", "123456789.10", "4.35", "1".repeat(1000)],
    ];
    for (const literal of literals) {
      for (const text of [literal, `[${literal}]`, `{"a":${literal}}`, `[1,${literal},{"b":0}]`]) {
        assert.equal(roundTrip(text), text);
      }
    }
  });

  test("convert to JavaScript numbers, and other values stay as they are", () => {
    const values = parsed("[1, 1.0, 9.0e0, -0, 12345678901234567890, 1e400]");
    assert(Array.isArray(values));

    assert.deepEqual(values.map(toPlainNumber), [1, 1, 9, -0, 12345678901234567000, Infinity]);
    const others = [{ rawJSON: "1" }, "1", null, undefined, true, [1]];
    for (const other of others) assert.equal(toPlainNumber(other), other);
    assert.equal(roundTrip(`{"rawJSON":"1"}`), `{"rawJSON":"1"}`);
  });
});

describe("nesting", () => {
  test("is limited to 64 levels of arrays or objects", () => {
    assert.equal(JSON_DEPTH_MAX, 64);
    for (const [open, close] of [
      ["[", "]"],
      [`{"a":`, "}"],
    ] as const) {
      const nested = (depth: number) => `${open.repeat(depth)}1.0${close.repeat(depth)}`;
      assert.equal(roundTrip(nested(64)), nested(64));
      assert.equal(parseJsonText(nested(65)).kind, "fault");
    }
    assert.equal(roundTrip(`[${"[],".repeat(999)}[]]`), `[${"[],".repeat(999)}[]]`);
  });

  test("ignores brackets within strings", () => {
    const brackets = "[{".repeat(100);
    for (const string of [brackets, `\\"${brackets}`, `${brackets}\\\\`, `\\\\\\"${brackets}`]) {
      assert.equal(parseJsonText(`["${string}"]`).kind, "json", string.slice(0, 8));
    }
    const open = "[".repeat(70) + "]".repeat(70);
    for (const text of [`["\\\\",${open}]`, `["a\\"",${open}]`]) {
      assert.equal(parseJsonText(text).kind, "fault", text.slice(0, 8));
    }
  });

  test("of a hundred thousand levels is refused without recursion", async () => {
    const closed = "[".repeat(100_000) + "]".repeat(100_000);
    const ms = await cpuMsOf(() => {
      for (const text of ["[".repeat(100_000), `{"a":`.repeat(100_000), closed]) {
        assert.equal(parseJsonText(text).kind, "fault");
      }
    });
    assert(ms < 1000, `${ms} ms`);
  });
});

describe("strings and names", () => {
  test("keep __proto__ and similar names as ordinary members", () => {
    const text = `{"__proto__":{"a":1.0},"constructor":1,"toString":null,"hasOwnProperty":[]}`;
    const value = parsed(text);
    assert(typeof value === "object" && value !== null);

    assert.deepEqual(Object.keys(value), [
      ...["__proto__", "constructor", "toString", "hasOwnProperty"],
    ]);
    assert.equal(Object.getPrototypeOf(value), Object.prototype);
    assert.equal(toJsonText(value), text);
    // The same without a number that takes the slow way.
    assert.equal(roundTrip(`{"__proto__":{"a":1}}`), `{"__proto__":{"a":1}}`);
  });

  test("keep every character, also NUL and lone surrogates", () => {
    const character = fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit));
    const text = fc.array(character, { maxLength: 30 }).map((units) => units.join(""));
    fc.assert(
      fc.property(text, text, (name, value) => {
        const document = parsed(JSON.stringify({ [name]: [value, 1] }));

        assert.deepEqual(Object.entries(document ?? {}), [[name, [value, 1]]]);
        const again: unknown = JSON.parse(toJsonText(document));
        assert.deepEqual(again, document);
      }),
      { numRuns: 500 },
    );
  });
});

describe("bytes", () => {
  test("are refused if they are not valid UTF-8", () => {
    const invalid = {
      "a lone continuation byte": [0x22, 0x80, 0x22],
      "a truncated sequence": [0x22, 0xe2, 0x82, 0x22],
      "an overlong encoding": [0x22, 0xc0, 0xaf, 0x22],
      "an encoded surrogate": [0x22, 0xed, 0xa0, 0x80, 0x22],
      "a character beyond U+10FFFF": [0x22, 0xf4, 0x90, 0x80, 0x80, 0x22],
      "UTF-16": [0xff, 0xfe, 0x5b, 0x00, 0x5d, 0x00],
    };
    for (const [what, bytes] of Object.entries(invalid)) {
      const fault = parseJsonBytes(Uint8Array.from(bytes));
      assert.deepEqual(fault, { kind: "fault", reason: "not valid UTF-8" }, what);
    }
  });

  test("are read as UTF-8, with or without a byte order mark", () => {
    const bytes = Buffer.from(`["\u00e4\u{1F600}",1.0]`);
    const marked = Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), bytes]);

    for (const each of [bytes, marked]) {
      const document = parseJsonBytes(each);
      assert(document.kind === "json");
      assert.equal(toJsonText(document.value), bytes.toString());
    }
  });

  test("that are not JSON are refused with the line and column alone", () => {
    for (const [text, reason] of [
      ["", "not valid JSON: it ends too early (line 1, column 1)"],
      [" ", "not valid JSON: it ends too early (line 1, column 2)"],
      ["hunter2", "not valid JSON (line 1, column 1)"],
      [`{"password":"hunter2"`, "not valid JSON: it ends too early (line 1, column 22)"],
      [`["hunter2",]`, "not valid JSON (line 1, column 12)"],
      [`[{"ä\u{1F600}": 1,\n  'b': 2}]`, "not valid JSON (line 2, column 3)"],
      [`{"a": "x\ny"}`, "not valid JSON (line 1, column 9)"],
      [`{"a": 01}`, "not valid JSON (line 1, column 8)"],
      [`{"a": 1} {`, "not valid JSON (line 1, column 10)"],
    ] as const) {
      assert.deepEqual(parseJsonBytes(Buffer.from(text)), { kind: "fault", reason });
    }
  });
});

function numbersOf(text: string): readonly string[] {
  const isRepeated = /"(\w)":.*"\1":/.test(text);
  if (isRepeated) return [];
  return text.replaceAll(/"(?:[^"\\]|\\.)*"/g, "").match(/-?\d[\d.eE+-]*/g) ?? [];
}

test("isDeeperThan counts the levels of a text", () => {
  const cases = [
    ["1", 0],
    ["1.0", 0],
    ['"[[["', 0],
    ["null", 0],
    ["[]", 1],
    ["{}", 1],
    ["[1.0]", 1],
    ['[1,{"a":[]},[]]', 3],
    ['{"__proto__":{"a":1}}', 2],
  ] as const;
  for (const [text, depth] of cases) {
    assert.equal(isDeeperThan(text, depth), false, text);
    if (depth > 0) assert.equal(isDeeperThan(text, depth - 1), true, text);
  }
});

// The names begin with the verdict: y is JSON, n is not JSON, i is either.
test("the files of JSONTestSuite have the verdict of their name and keep their numbers", () => {
  const file = new URL("../fixtures/http/json-test-suite.json", import.meta.url);
  const files: Readonly<Record<string, string>> = JSON.parse(readFileSync(file, "utf8"));
  for (const [name, base64] of Object.entries(files)) {
    const bytes = Buffer.from(base64, "base64");
    const document = parseJsonBytes(bytes);
    if (name.startsWith("y_")) assert.equal(document.kind, "json", name);
    if (name.startsWith("n_")) assert.equal(document.kind, "fault", name);
    if (document.kind !== "json") continue;
    const out = toJsonText(document.value);
    assert.equal(roundTrip(out), out, name);
    assert.deepEqual(numbersOf(out), numbersOf(bytes.toString("utf8")), name);
  }
});

/** Parses as V8 does, except that each number keeps its text: the reference, too slow for the product. */
function parseByReviver(text: string): unknown {
  // In V8, not yet in TypeScript's library.
  const parse = JSON.parse as (
    text: string,
    reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ) => unknown;
  return parse(text, (_key, value, { source }) => {
    if (typeof value !== "number" || source === undefined) return value;
    return String(value) === source ? value : JSON.rawJSON(source);
  });
}

function assertAsByReviver(text: string): void {
  const document = parseJsonText(text);
  let expected: unknown;
  try {
    expected = parseByReviver(text);
  } catch {
    assert.equal(document.kind, "fault", text);
    return;
  }
  assert(document.kind === "json", text);
  assert.equal(toJsonText(document.value), JSON.stringify(expected));
  const compact = compactJson(Buffer.from(text));
  assert(compact.kind === "text", text);
  // Members keep their order, which JavaScript changes if their names are whole numbers.
  assert.equal(JSON.stringify(parseByReviver(compact.text)), JSON.stringify(expected));
  assert.equal(compact.text.length, JSON.stringify(expected).length);
  assert.deepEqual(document.value, expected);
}

test("members keep their order, also if their names are whole numbers", () => {
  const name = fc.oneof(
    fc.constantFrom("a", "", "-1", "01", "4294967294", "4294967295", "1.0"),
    fc.nat({ max: 20 }).map(String),
  );
  fc.assert(
    fc.property(fc.uniqueArray(name, { maxLength: 40 }), (names) => {
      const object = `{${names.map((each, i) => `${JSON.stringify(each)}:${i}`).join()}}`;
      for (const text of [object, `[${object}]`, `{"x":${object}}`]) {
        assert.deepEqual(compactJson(Buffer.from(text)), { kind: "text", text });
        const task = parseJsonText(`[{"input":${text}}]`, { opens: 1 });
        assert(task.kind === "json");
        assert.equal(toJsonText((task.value as [{ input: unknown }])[0].input), text);
      }
    }),
  );
});

test("a duplicate name has its last value at its first position", () => {
  const text = '{"2":0,"b":1,"1":{"2":0,"1":1,"2":2},"b":3,"2":4}';

  const out = compactJson(Buffer.from(text));

  assert.deepEqual(out, { kind: "text", text: '{"2":4,"b":3,"1":{"2":2,"1":1}}' });
});

// V8 up to 14.6 takes an escaped name for one that it has seen in its place and that begins like the escape.
test("a name with escapes is decoded, also after a similar document", () => {
  const seen = String.raw`{"":[],"b":{},"\\":{}}`;
  for (const name of [String.raw`"\n"`, String.raw`"\""`, String.raw`"\u0061"`, String.raw`"\/"`]) {
    assert.equal(roundTrip(seen), seen);
    const text = `{"":[],"b":{},${name} : {}}`;
    assert.deepEqual(Object.keys(parsed(text) ?? {}), ["", "b", JSON.parse(name)], text);
  }
  assert.equal(roundTrip(String.raw`{"a":1,"b":2,"\u0061":3}`), '{"a":3,"b":2}');
});

describe("the parser agrees with the reference", () => {
  const space = fc.string({ unit: fc.constantFrom(" ", "\t", "\n", "\r"), maxLength: 2 });
  const escape = fc.constantFrom(
    ...["\\n", '\\"', "\\\\", "\\/", "\\u0041", "\\ud83d", "\\u0000", "\\ude00", "\u2028"],
    ...["😀", "é", "[", "{", "]", "}", ",", ":", "1.0", "-0", " ", "a"],
  );
  const string = fc.array(escape, { maxLength: 4 }).map((parts) => `"${parts.join("")}"`);
  // Without escapes: see above.
  const name = fc.oneof(
    fc.constantFrom(...["a", "b", "1", "0", "-0", "__proto__", "constructor", "", "é", "😀"]),
    fc.constantFrom(...["10", "01", "4294967294", "4294967295", "9999999999", "1.0"]),
    fc.stringMatching(/^[a-z0-9 ]{0,3}$/),
  );
  const { document } = fc.letrec<{ document: string }>((tie) => {
    const value = fc.tuple(space, tie("document"), space).map((parts) => parts.join(""));
    const member = fc.tuple(space, name, space, value).map(([a, b, c, d]) => `${a}"${b}"${c}:${d}`);
    return {
      document: fc.oneof(
        { depthSize: "medium" },
        fc.oneof(numberLiteral, string, fc.constantFrom("true", "false", "null", "7", "1.0")),
        fc.array(value, { maxLength: 4 }).map((values) => `[${values.join()}]`),
        fc.array(member, { maxLength: 4 }).map((members) => `{${members.join()}}`),
        fc.constantFrom("[ ]", "{\n}", "[]", "{}"),
      ),
    };
  });

  test("for generated documents", () => {
    fc.assert(fc.property(document, assertAsByReviver), { numRuns: 3000 });
  });

  test("for documents with a piece removed or repeated", () => {
    const broken = fc.tuple(document, fc.nat(), fc.nat(3), fc.boolean());
    fc.assert(
      fc.property(broken, ([text, where, length, isTwice]) => {
        const at = where % (text.length + 1);
        const piece = text.slice(at, at + length);
        const rest = text.slice(at + length);
        const cut = text.slice(0, at) + (isTwice ? piece + piece : "") + rest;
        // A lone surrogate has no UTF-8.
        assertAsByReviver(cut.toWellFormed());
      }),
      { numRuns: 3000 },
    );
  });

  test("for the slowest inputs", () => {
    const units = ["1e9,", "0,", "[],", "{},", '"",', "-0,", "1.0,", '"\\n",', '{"a":1.0,"a":-0},'];
    const many = units.map((unit) => `[${unit.repeat(5000)}1e9]`);
    const names = Array.from({ length: 5000 }, (_, i) => `"${(i * 7919) % 5000}":1.0`);
    const twice = Array.from(
      { length: 5000 },
      (_, i) => `"n${(i * 7919) % 2500}":[${i},{"b":1,"1":2}]`,
    );
    const nested = `${'[1.0,{"a":'.repeat(32)}1e9${"}]".repeat(32)}`;
    const blank = `[${" ".repeat(50_000)}1.0${"\n".repeat(50_000)}]`;
    const long = [`"${"x".repeat(50_000)}"`, "1".repeat(50_000), `0.${"0".repeat(50_000)}1`];
    const others = [`{${names.join()}}`, `{${twice.join()}}`, nested, blank];
    for (const each of long) others.push(`[1.0,${each}]`);
    for (const text of [...many, ...others]) assertAsByReviver(text);
  });
});

describe("a document parsed to a limited depth", () => {
  test("keeps the text of deeper values", () => {
    const [list, object] = ["[1.0]", '{"b":{"c":1.0},"a":[]}'];
    const text = `[{"input": ${object} ,"n":1.0,"list":${list}},[{}]]`;
    const document = parseJsonText(text, { opens: 1 });
    assert(document.kind === "json" && Array.isArray(document.value));
    const [task, inner] = document.value as unknown[];
    assert(isJsonObject(task));

    const texts = Object.entries(task).map(([name, value]) => `${name} ${toJsonText(value)}`);
    assert.deepEqual(texts, [`input ${object}`, "n 1.0", `list ${list}`]);
    assert.equal(toJsonText(inner), "[{}]");
    for (const each of [task["input"], task["list"], inner]) assert(!isJsonObject(each));
  });

  test("keeps the length of a list beyond the task limit, and not its items", () => {
    const items = ["1", "1.0", '"x]"', "[1,[2]]", '{"a":[]}', "null", "false", "true"];
    const text = `{"tasks":[${Array.from({ length: 80_000 }, (_, i) => items[i % items.length]).join()}]}`;
    const document = parseJsonText(text, { opens: 2 });
    assert(document.kind === "json" && isJsonObject(document.value));
    const { tasks } = document.value;
    assert(Array.isArray(tasks));

    assert.equal(tasks.length, 80_000);
    assert.equal(Object.keys(tasks).length, 10_000);
  });

  test("is validated at every depth", () => {
    for (const text of ['[{"input":[01]}]', '[{"input":{"a":}}]', '[{"input":"\u0001"}]']) {
      assert.equal(parseJsonText(text, { opens: 1 }).kind, "fault", text);
    }
    const deep = `[{"input":${"[".repeat(63)}${"]".repeat(63)}}]`;
    assert.equal(parseJsonText(deep, { opens: 1 }).kind, "fault");
    assert.equal(parseJsonText(deep, { opens: 1, depthMax: 65 }).kind, "json");
  });
});

const SMALL = new Uint8Array(1);
const LARGE = new Uint8Array(512);

function sharesInTurns() {
  const callbacks: (() => void)[] = [];
  const shares = new ChunkShares((callback) => callbacks.push(callback));
  const nextTurn = (): void => callbacks.splice(0).forEach((callback) => callback());
  return { shares, nextTurn };
}

/** The small chunks accepted until the first refusal. */
function taken(isTaken: (chunk: Uint8Array) => boolean): number {
  let count = 0;
  while (isTaken(SMALL)) count++;
  return count;
}

test("one turn of the event loop accepts a limited number of small chunks of a sender, over all messages", () => {
  const { shares, nextTurn } = sharesInTurns();

  assert.equal(taken(shares.open("a")), UNCOUNTED_CHUNKS + TURN_CHUNKS_MAX);
  const another = shares.open("a");
  assert.equal(taken(another), UNCOUNTED_CHUNKS);
  assert.equal(another(LARGE), true);
  nextTurn();
  assert.equal(taken(another), TURN_CHUNKS_MAX);
});

test("a later sender has an even share", () => {
  const { shares } = sharesInTurns();
  taken(shares.open("a"));

  assert.equal(taken(shares.open("b")), UNCOUNTED_CHUNKS + TURN_CHUNKS_MAX / 2);
  assert.equal(taken(shares.open("c")), UNCOUNTED_CHUNKS + Math.floor(TURN_CHUNKS_MAX / 3));
});
