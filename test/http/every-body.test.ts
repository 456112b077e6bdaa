import assert from "node:assert/strict";
import { test } from "node:test";

import { bodySchema } from "../../src/api/input.ts";
import { namedSchemas } from "../../src/api/schema.ts";
import type { JsonSchema } from "../../src/api/schema.ts";
import { PostedTask } from "../../src/api/task.ts";
import { takesBody } from "../../src/http/operation.ts";
import { headerOf, openRaw, toBytes, toChunks } from "../helpers/raw-http.ts";
import { JSON_TYPE, toAnswer, type Answer } from "./answer.ts";
import {
  assertQuiet,
  BODY_LIMIT as LIMIT,
  LIMITED_BODIES,
  startTested,
  toRequest,
  type Case,
  type Parts,
  type Tested,
} from "./operation-cases.ts";

/** Bad bodies to every operation that takes one. */

const CHUNKED = "Transfer-Encoding: chunked";

/** The operations that take a body. */
function takingBodies({ cases }: Tested): readonly Case[] {
  return cases.filter(({ operation }) => takesBody(operation.takes));
}

/** The same body with its length declared and in chunks of several sizes. */
function bothWays(parts: Parts, body: string | Uint8Array): readonly Parts[] {
  const { media } = parts;
  const chunked = [7, 4096].map((size) => ({
    ...parts,
    media: [...media, CHUNKED],
    body: toChunks(body, Math.max(size, Math.ceil(body.length / 200))),
  }));
  return [{ ...parts, body }, ...chunked];
}

test("a body that is not called JSON in UTF-8, once and as it is, is 41500", async (t) => {
  const tested = await startTested(t);
  const refused = [
    [[], ["Content-Type:"], ["Content-Type: text/plain"], ["Content-Type: text/json"]],
    [["Content-Type: application/x-www-form-urlencoded"], ["Content-Type: application/jsonx"]],
    [["Content-Type: multipart/form-data; boundary=x"], ["Content-Type: application/*"]],
    [["Content-Type: application/json; charset=utf-16"], ["Content-Type: application/json, x/y"]],
    [
      [JSON_TYPE, JSON_TYPE],
      [JSON_TYPE, "Content-Type: text/plain"],
    ],
    [
      [JSON_TYPE, "Content-Encoding: gzip"],
      [JSON_TYPE, "Content-Encoding: identity, br"],
    ],
  ].flat();
  for (const { name, sound, status } of takingBodies(tested)) {
    for (const media of refused) {
      for (const parts of bothWays({ ...sound, media }, String(sound.body))) {
        assert.equal((await tested.send(parts)).code, 41500, `${name} ${media.join()}`);
      }
    }
    const coded = [JSON_TYPE, "Transfer-Encoding: gzip, chunked"];
    const parts = { ...sound, media: coded, body: toChunks(String(sound.body)) };
    assert.equal((await tested.send(parts)).code, 41500, name);
    for (const line of [
      'Content-Type: Application/JSON; Charset="UTF-8"',
      "content-type:application/json",
    ]) {
      const { response } = await tested.send({ ...sound, media: [line] });
      assert.equal(response.status, status, `${name} ${line}`);
    }
  }
  assertQuiet(tested);
});

test("an empty body is 40502, or the same as {} where there need be none", async (t) => {
  const tested = await startTested(t);
  for (const { operation, name, sound, status } of takingBodies(tested)) {
    const isOptional = operation.takes.isBodyOptional === true;
    for (const parts of [...bothWays(sound, ""), { ...sound, body: null }]) {
      const { response, code } = await tested.send(parts);
      if (isOptional) assert.equal(response.status, status, name);
      else assert.equal(code, 40502, name);
    }
    for (const media of [[], ["Content-Type: text/plain"]]) {
      const { response, code } = await tested.send({ ...sound, media, body: null });
      if (isOptional) assert.equal(response.status, status, name);
      else assert.equal(code, 41500, name);
    }
  }
  assertQuiet(tested);
});

/** The sound body, drawn out by white space to so many bytes. */
function paddedTo(bytes: number, { body }: Parts): string {
  return String(body).padEnd(bytes);
}

test("a body of exactly the limit is taken and one byte more is 41300, its length declared or not", async (t) => {
  const tested = await startTested(t, { toml: LIMITED_BODIES });
  for (const { name, sound, status } of takingBodies(tested)) {
    for (const parts of bothWays(sound, paddedTo(LIMIT, sound))) {
      assert.equal((await tested.send(parts)).response.status, status, name);
    }
    for (const parts of bothWays(sound, paddedTo(LIMIT + 1, sound))) {
      const { response, code } = await tested.send(parts);
      assert.equal(code, 41300, name);
      assert.equal(headerOf(response, "connection"), "close");
    }
  }
  assertQuiet(tested);
});

test("a body that names little is 41300 beyond a few KiB, whatever others may have", async (t) => {
  const tested = await startTested(t);
  const limits = { message: 32 * 1024, leases: 1024 ** 2, results: 16 * 1024 ** 2 };
  for (const { operation, name, sound, status } of takingBodies(tested)) {
    const { json, holds } = operation.takes;
    const limit = json === undefined ? limitOf(holds) : 1024 ** 2;
    const taken = await tested.send({ ...sound, body: paddedTo(limit, sound) });
    assert.equal(taken.response.status, status, name);
    const refused = await tested.send({ ...sound, body: paddedTo(limit + 1, sound) });
    assert.equal(refused.code, 41300, name);
    const detail = `The body may have at most ${limit} bytes.`;
    assert.deepEqual(refused.body.errors, [{ pointer: "", detail }], name);
  }
  assertQuiet(tested);
  function limitOf(holds: keyof typeof limits | undefined) {
    return holds === undefined ? 8 * 1024 : limits[holds];
  }
});

test("a body that is too large is refused before it has come whole, and the connection closed", async (t) => {
  const tested = await startTested(t, { toml: LIMITED_BODIES });
  const size = (LIMIT + 1).toString(16);
  for (const { name, sound } of takingBodies(tested)) {
    const begun: readonly (readonly [string, string])[] = [
      [`Content-Length: ${LIMIT + 1}`, ""],
      ["Content-Length: 9007199254740991", "{"],
      [CHUNKED, `${size}\r\n${"x".repeat(LIMIT + 1)}`],
      [CHUNKED, `ffffffff\r\n${"x".repeat(LIMIT + 1)}`],
    ];
    for (const [length, body] of begun) {
      for (const others of [[], ["Expect: 100-continue"]]) {
        const connection = await openRaw(t, tested.daemon.url);
        const head = { ...sound, media: [...sound.media, length], others, body: null };
        connection.send(Buffer.concat([toBytes(toRequest(head)), Buffer.from(body)]));
        assert.equal(toAnswer(await connection.next()).code, 41300, `${name} ${length}`);
        assert.equal((await connection.closed()).length, 0);
      }
    }
  }
  assertQuiet(tested);
});

const NOT_JSON = [
  [" ", "\0", "nonsense", "NaN", "Infinity", "'{}'", "{}{}", "{} x", "{,}", '{"a":1,}', "[1,]"],
  ['{"a" 1}', "{a:1}", '{"a":01}', '{"a":.5}', '{"a":+1}', '{"a":0x1}', '{"a":1e}', '{"\t":1}'],
  ['{"a":"\n"}', '{"a":"\\x41"}', '{"a":"\\u12"}', "/**/{}", "{}//", '"', "[", "{", "]", "tru"],
  ["\ufeff\ufeff{}", "\u00a0{}", "{}\u2028", "<x/>", "email=a@b.example", "email: a@b.example"],
].flat();

test("a body that is no JSON is 40503 and is repeated neither in the answer nor in the log", async (t) => {
  const tested = await startTested(t);
  for (const { name, sound } of takingBodies(tested)) {
    for (const body of [...NOT_JSON, '{"SECRET":SECRET}', "SECRET", '"SECRET', '["SECRET",]']) {
      for (const parts of bothWays(sound, body)) {
        const { response, code, body: shown } = await tested.send(parts);
        assert.equal(code, 40503, `${name} ${body}`);
        assert.equal(shown.errors?.[0]?.pointer, "");
        assert.doesNotMatch(response.body.toString(), /SECRET/);
      }
    }
  }
  assert.doesNotMatch(tested.daemon.logLines.join(""), /SECRET/);
  assertQuiet(tested);
});

test("a body that was cut off anywhere is 40503", async (t) => {
  const tested = await startTested(t);
  for (const { name, sound } of takingBodies(tested)) {
    const whole = String(sound.body);
    for (let length = 1; length < whole.length; length++) {
      const { code } = await tested.send({ ...sound, body: whole.slice(0, length) });
      assert.equal(code, 40503, `${name} ${whole.slice(0, length)}`);
    }
  }
  assertQuiet(tested);
});

test("who goes away in the middle of a body leaves nothing behind, and the next client is served", async (t) => {
  const tested = await startTested(t);
  for (const { sound } of takingBodies(tested)) {
    for (const [length, body] of [
      ["Content-Length: 1000", "{"],
      [CHUNKED, "1\r\n{\r\n"],
    ] as const) {
      for (const goAway of ["end", "reset"] as const) {
        const connection = await openRaw(t, tested.daemon.url);
        const head = toRequest({ ...sound, media: [...sound.media, length], body: null });
        connection.send(Buffer.concat([toBytes(head), Buffer.from(body)]));
        connection[goAway]();
        await connection.closed();
      }
    }
    await tested.send({ ...sound, body: "{" });
  }
  assertQuiet(tested);
});

test("a body that is not UTF-8 is 40503, wherever the bytes stand", async (t) => {
  const tested = await startTested(t);
  const bytes = [
    [[0xff], [0xc0, 0xaf], [0xe0, 0x80, 0xaf], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80]],
    [[0xe2, 0x82], [0x80], [0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80]],
  ].flat();
  const places = [
    ['{"name":"', '"}'],
    ['{"', '":1}'],
    ["{}", ""],
    ["", "{}"],
  ] as const;
  for (const { name, sound } of takingBodies(tested)) {
    for (const each of bytes) {
      for (const [before, after] of places) {
        const body = Buffer.concat([Buffer.from(before), Buffer.from(each), Buffer.from(after)]);
        assert.equal((await tested.send({ ...sound, body })).code, 40503, `${name} ${before}`);
      }
    }
    for (const encoding of ["utf16le", "latin1"] as const) {
      const body = Buffer.from(`{"é":${String(sound.body)}}`, encoding);
      assert.equal((await tested.send({ ...sound, body })).code, 40503, name);
    }
  }
  assertQuiet(tested);
});

test("a body of all the levels that its size has room for is 40503, closed or not, of arrays and of objects", async (t) => {
  const tested = await startTested(t);
  const deepBy = (levels: number) => [
    "[".repeat(levels),
    "[".repeat(levels) + "]".repeat(levels),
    '{"a":'.repeat(levels),
    `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`,
    `{"label":${"[".repeat(levels)}${"]".repeat(levels)}}`,
  ];
  for (const { operation, name, sound } of takingBodies(tested)) {
    // A result that is too deep fails its run alone, so more is read where there are some.
    const holds = operation.takes.json === undefined ? operation.takes.holds : "input";
    const max = holds === "results" ? 1000 : 66;
    // Of what names little no more is read.
    const deep = deepBy(holds === undefined ? 1200 : holds === "message" ? 5000 : 100_000);
    for (const body of [...deep, "[".repeat(max + 1) + "]".repeat(max + 1)]) {
      const answer = await tested.send({ ...sound, body });
      assert.equal(answer.code, 40503, name);
      const { detail = "" } = answer.body.errors?.[0] ?? {};
      assert.match(detail, new RegExp(`nested deeper than ${max} levels`));
    }
    const most = `{"x":${"[".repeat(max - 1)}${"]".repeat(max - 1)}}`;
    assert.notEqual((await tested.send({ ...sound, body: most })).code, 40503, name);
  }
  assertQuiet(tested);
});

test("JSON that is no object is 40503", async (t) => {
  const tested = await startTested(t);
  const others = [
    "null",
    "true",
    "1",
    "1.0000000000000000000",
    "-0",
    '"x"',
    "[[]]",
    "[null]",
    "[1]",
  ];
  for (const { operation, name, sound } of takingBodies(tested)) {
    const isArrayTaken = operation.takes.json !== undefined;
    for (const body of isArrayTaken
      ? others
      : [...others, "[]", "[{}]", `[${String(sound.body)}]`]) {
      assert.equal((await tested.send({ ...sound, body })).code, 40503, `${name} ${body}`);
    }
  }
  assertQuiet(tested);
});

/** The schema of each field that an operation's body may have. */
function fieldSchemas({ operation: { takes } }: Case): Readonly<Record<string, JsonSchema>> {
  const schema =
    takes.body === undefined ? namedSchemas(PostedTask)["PostedTask"] : bodySchema(takes.body);
  assert.ok(schema !== undefined);
  // Of an object of fields, as each of the two is.
  return schema["properties"] as Readonly<Record<string, JsonSchema>>;
}

const SAMPLES: Readonly<Record<string, string>> = {
  string: '"x"',
  integer: "1",
  number: "1.5",
  boolean: "true",
  array: "[]",
  object: "{}",
  null: "null",
};

/** JSON texts that a field's schema does not allow; none where it allows everything. */
function brokenTexts(schema: JsonSchema): readonly string[] {
  const types = [schema["type"] ?? []].flat();
  if (types.length === 0) return [];
  // A whole number is a number too.
  const taken = types.includes("number") ? [...types, "integer"] : types;
  const samples = Object.entries(SAMPLES).filter(([type]) => !taken.includes(type));
  const texts = samples.map(([, sample]) => sample);
  const { minimum, maximum } = schema;
  if (typeof minimum === "number" && typeof maximum === "number") {
    texts.push(`${minimum - 1}`, `${maximum + 1}`, "1e400", "99999999999999999999", "-0.5");
  }
  if (types.includes("string")) {
    texts.push(
      '"\\ud800"',
      '"\\udc00x"',
      '"\\u0000"',
      '"a\\u007fb"',
      '"\\u0085"',
      '{"x":"y"}',
      "1.00000000000000000000",
    );
    const { maxLength } = schema;
    if (typeof maxLength === "number") texts.push(JSON.stringify("é".repeat(maxLength + 1)));
  }
  return texts;
}

/** Which field an answer says is invalid, of a refused task too. */
function invalidField({ body }: Answer): string | undefined {
  const [task] = body.tasks ?? [];
  const { status_code, status_message } = (task ?? body) as Record<string, unknown>;
  if (status_code !== 40501) return undefined;
  return /^Invalid Field: '(.*?)'\. /s.exec(String(status_message))?.[1];
}

test("a field of the wrong type, too long or out of range is named with 40501", async (t) => {
  const tested = await startTested(t);
  for (const each of takingBodies(tested)) {
    for (const [field, schema] of Object.entries(fieldSchemas(each))) {
      for (const text of brokenTexts(schema)) {
        const body = `${String(each.sound.body).slice(0, -1)},"${field}":${text}}`;
        const answer = await tested.send({ ...each.sound, body: body.replace("{,", "{") });
        const named = `${each.name} ${field}: ${text.slice(0, 50)}`;
        assert.equal(invalidField(answer), field, named);
        if (each.operation.takes.body === undefined) continue;
        assert.deepEqual(
          answer.body.errors?.map(({ pointer }) => pointer),
          [`/${field}`],
          named,
        );
      }
    }
  }
  assertQuiet(tested);
});

test("of several bad fields a small body's answer names them all, unknown ones first, up to twenty", async (t) => {
  const tested = await startTested(t);
  for (const each of takingBodies(tested)) {
    if (each.operation.takes.body === undefined) continue;
    const schemas = Object.entries(fieldSchemas(each));
    const fields = schemas.map(([field]) => field);
    // What takes true takes no number.
    const given = schemas.map(([field, { type }]) => {
      const isBoolean = [type].flat().includes("boolean");
      return `"${field}":${isBoolean ? 1 : true}`;
    });
    const bad = [...given, '"a/b~c":1', '"":1'].join();
    const { code, body } = await tested.send({ ...each.sound, body: `{${bad}}` });
    assert.equal(code, 40501);
    const pointers = body.errors?.map(({ pointer }) => pointer);
    assert.deepEqual(pointers, ["/a~1b~0c", "/", ...fields.map((field) => `/${field}`)]);
    const many = Array.from({ length: 1000 }, (_, i) => `"${i}":1`).join();
    const flooded = await tested.send({ ...each.sound, body: `{${many}}` });
    assert.equal(flooded.body.errors?.length, 20, each.name);
  }
  assertQuiet(tested);
});

test("a required field that is missing or null is named with 40501", async (t) => {
  const tested = await startTested(t);
  for (const { operation, name, sound } of takingBodies(tested)) {
    const { body } = operation.takes;
    if (body === undefined) continue;
    for (const [field, { absent }] of Object.entries(body)) {
      if (absent !== null) continue;
      for (const body of ["{}", `{"${field}":null}`, `{"${field.toUpperCase()}":"x"}`]) {
        const answer = await tested.send({ ...sound, body });
        assert.equal(answer.code, 40501, name);
        const error = answer.body.errors?.find(({ pointer }) => pointer === `/${field}`);
        assert.equal(error?.detail, "It is missing.", `${name} ${body}`);
      }
    }
  }
  assertQuiet(tested);
});

// As they stand in JSON. Objects are born with some of them; some no text may hold.
const STRANGE_NAMES = [
  ["__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "length", "then", ""],
  [
    "\\ud800",
    "\\udc00\\ud800",
    "\\u0000",
    "a\\u000ab",
    "x".repeat(5000),
    `x${"😀".repeat(40)}`,
    "'. ",
  ],
  ["../x", "a/b", "~", "\\u005f_proto__", "isRequired", "parse", "valueOf", "__defineGetter__"],
].flat();

test("a field that no operation knows is refused by its name, whatever it is called", async (t) => {
  const tested = await startTested(t);
  for (const { operation, name, sound } of takingBodies(tested)) {
    for (const strange of STRANGE_NAMES) {
      for (const value of ["1", "null", "{}", '{"admin":true}', '"x"']) {
        const body = `{"${strange}":${value},${String(sound.body).slice(1)}`.replace(",}", "}");
        const answer = await tested.send({ ...sound, body });
        const [task] = answer.body.tasks ?? [];
        if (operation.takes.json !== undefined) assert.equal(task?.status_code, 40506, strange);
        else assert.equal(answer.code, 40501, `${name} ${strange}`);
        assert.ok(answer.response.body.length < 20_000);
        // Half a character, escaped as it came, would break a client that reads UTF-16 strictly.
        assert.doesNotMatch(
          answer.response.body.toString(),
          /"(status_message|pointer)":"[^"]*\\u[dD][89a-fA-F]/,
        );
      }
    }
  }
  assert.equal(Object.hasOwn(Object.prototype, "admin"), false);
  assertQuiet(tested);
});

test("of a name that stands twice the last one counts, for every field", async (t) => {
  const tested = await startTested(t);
  for (const each of takingBodies(tested)) {
    const sound: unknown = JSON.parse(String(each.sound.body));
    const { errors } = (await tested.send(each.sound)).body;
    for (const [field, value] of Object.entries(sound ?? {})) {
      const [bad] = brokenTexts(fieldSchemas(each)[field] ?? {});
      if (bad === undefined) continue;
      const whole = String(each.sound.body);
      const first = await tested.send({
        ...each.sound,
        body: `{"${field}":${bad},${whole.slice(1)}`,
      });
      assert.deepEqual(first.body.errors, errors, `${each.name} ${field}`);
      assert.equal(first.response.status, each.status);
      const last = `${whole.slice(0, -1)},"${field}":${JSON.stringify(value)},"${field}":${bad}}`;
      assert.equal(invalidField(await tested.send({ ...each.sound, body: last })), field);
    }
  }
  assertQuiet(tested);
});

test("a body that waits for 100-continue is asked for, and one that does not wait is taken as well", async (t) => {
  const tested = await startTested(t);
  for (const { name, sound, status } of takingBodies(tested)) {
    const connection = await openRaw(t, tested.daemon.url);
    const bytes = Buffer.from(String(sound.body));
    for (const expect of ["100-continue", "100-CONTINUE"]) {
      const others = [`Expect: ${expect}`, `Content-Length: ${bytes.length}`];
      connection.send(toBytes(toRequest({ ...sound, others, body: null })));
      const response = connection.next();
      connection.send(bytes);
      assert.equal((await response).status, status, name);
      const unasked = await tested.send({ ...sound, others: [`Expect: ${expect}`] });
      assert.equal(unasked.response.status, status, name);
    }
  }
  assertQuiet(tested);
});
