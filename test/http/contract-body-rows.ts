import assert from "node:assert/strict";

import { bodySchema } from "../../src/api/input.ts";
import { namedSchemas } from "../../src/api/schema.ts";
import type { JsonSchema } from "../../src/api/schema.ts";
import { PostedTask } from "../../src/api/task.ts";
import { takesBody } from "../../src/http/operation.ts";
import { toChunks } from "../helpers/raw-http.ts";
import { JSON_TYPE } from "./answer.ts";
import { CHUNKED, type Kind, type Row } from "./contract-rows.ts";
import { BODY_LIMIT, type Case, type Parts } from "./operation-cases.ts";

type Body = string | Uint8Array;

/** The same body with its length declared and in chunks. */
function bothWays(parts: Parts, body: Body): readonly Parts[] {
  const chunks = toChunks(body, Math.max(7, Math.ceil(body.length / 200)));
  return [
    { ...parts, body },
    { ...parts, media: [...parts.media, CHUNKED], body: chunks },
  ];
}

/** Rows with these bodies and one expected code. */
function refused(parts: Parts, expected: number, bodies: readonly Body[]): readonly Row[] {
  return bodies.map((body) => {
    return { parts: { ...parts, body }, cause: String(body).slice(0, 20), expected };
  });
}

const OTHER_MEDIA: readonly (readonly string[])[] = [
  ...[[], ["Content-Type:"], ["Content-Type: text/plain"], ["Content-Type: text/json"]],
  ...[["Content-Type: application/x-www-form-urlencoded"], ["Content-Type: application/jsonx"]],
  ...[["Content-Type: multipart/form-data; boundary=x"], ["Content-Type: application/*"]],
  ...[["Content-Type: application/json; charset=utf-16"]],
  ...[["Content-Type: application/json, x/y"]],
  [JSON_TYPE, "Content-Encoding: gzip"],
  [JSON_TYPE, "Content-Encoding: identity, br"],
];
const JSON_MEDIA = [
  'Content-Type: Application/JSON; Charset="UTF-8"',
  "content-type:application/json",
];

function media({ sound, status }: Case): readonly Row[] {
  const body = String(sound.body);
  const others = OTHER_MEDIA.flatMap((lines) => bothWays({ ...sound, media: lines }, body));
  const coded = [JSON_TYPE, "Transfer-Encoding: gzip, chunked"];
  return [
    ...[...others, { ...sound, media: coded, body: toChunks(body) }].map((parts) => {
      return { parts, expected: 41500 };
    }),
    ...JSON_MEDIA.map((line) => ({ parts: { ...sound, media: [line] }, expected: status })),
  ];
}

function empty({ operation, sound, bodilessStatus }: Case): readonly Row[] {
  const isOptional = operation.takes.isBodyOptional === true;
  const untyped = [[], ["Content-Type: text/plain"]].map((lines) => {
    const parts = { ...sound, media: lines, body: null };
    return { parts, expected: isOptional ? bodilessStatus : 41500 };
  });
  const typed = [...bothWays(sound, ""), { ...sound, body: null }].map((parts) => {
    return { parts, expected: isOptional ? bodilessStatus : 40502 };
  });
  return [...typed, ...untyped];
}

const NOT_JSON = [
  [" ", "\0", "SECRET", "{}{}", '{"a":1,}', '{"a" 1}', '{"a":01}', '{"\t":1}', '{"a":"\\u12"}'],
  ["/**/{}", "\ufeff\ufeff{}", "{}\u2028", "email=a@b.example", '{"SECRET":SECRET}'],
].flat();

function notJson({ sound }: Case): readonly Row[] {
  const pointers = [""];
  return NOT_JSON.flatMap((body) =>
    bothWays(sound, body).map((parts) => ({ parts, cause: body, expected: 40503, pointers })),
  );
}

function cutOff({ sound }: Case): readonly Row[] {
  const whole = String(sound.body);
  const lengths = [1, 2, Math.floor(whole.length / 2), whole.length - 2, whole.length - 1];
  const bodies = [...new Set(lengths)]
    .filter((each) => each > 0 && each < whole.length)
    .map((each) => whole.slice(0, each));
  return refused(sound, 40503, bodies);
}

const NOT_UTF8 = [
  [[0xff], [0xc0, 0xaf], [0xe0, 0x80, 0xaf], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80]],
  [[0xe2, 0x82], [0x80], [0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80]],
].flat();
const PLACES = ['{"name":"|"}', '{"|":1}', "{}|", "|{}"];

function notUtf8({ sound }: Case): readonly Row[] {
  const bodies = NOT_UTF8.map((bytes, i) => {
    const [before = "", after = ""] = (PLACES[i % PLACES.length] ?? "").split("|");
    return Buffer.concat([Buffer.from(before), Buffer.from(bytes), Buffer.from(after)]);
  });
  const encoded = (["utf16le", "latin1"] as const).map((encoding) =>
    Buffer.from(`{"é":${String(sound.body)}}`, encoding),
  );
  return refused(sound, 40503, [...bodies, ...encoded]);
}

function tooDeep({ operation: { takes }, sound }: Case): readonly Row[] {
  // A result that is too deep fails its run alone, so more levels are read.
  const holds = takes.json === undefined ? takes.holds : "input";
  const max = holds === "results" ? 1000 : 66;
  // A body for a few fields may have a few KiB.
  const levels = holds === undefined ? 1200 : holds === "message" ? 5000 : 100_000;
  const closed = (count: number): string => "[".repeat(count) + "]".repeat(count);
  const bodies = [
    ...["[".repeat(levels), closed(levels), '{"a":'.repeat(levels), closed(max + 1)],
    `{"label":${closed(levels)}}`,
  ];
  const most = { ...sound, body: `{"x":${closed(max - 1)}}` };
  // The deepest body that is read has an unknown field.
  const expected = takes.json === undefined ? 40501 : 20000;
  return [...refused(sound, 40503, bodies), { parts: most, expected }];
}

function notObject({ operation, sound }: Case): readonly Row[] {
  const others = ["null", "true", "1", "1.0000000000000000000", "-0", '"x"', "[[]]", "[null]"];
  const arrays =
    operation.takes.json === undefined ? ["[]", "[{}]", `[${String(sound.body)}]`] : [];
  return refused(sound, 40503, [...others, ...arrays]);
}

/** The schema of each field of an operation's body. */
function fieldSchemas({ operation: { takes } }: Case): Readonly<Record<string, JsonSchema>> {
  const schema =
    takes.body === undefined ? namedSchemas(PostedTask)["PostedTask"] : bodySchema(takes.body);
  assert.ok(schema !== undefined);
  return schema["properties"] as Readonly<Record<string, JsonSchema>>;
}

const SAMPLES: Readonly<Record<string, string>> = {
  ...{ string: '"x"', integer: "1", number: "1.5", boolean: "true", array: "[]", object: "{}" },
  null: "null",
};

/** JSON texts that a field with this schema refuses; none if it takes everything. */
export function brokenTexts(schema: JsonSchema): readonly string[] {
  const types = [schema["type"] ?? []].flat();
  if (types.length === 0) return [];
  const taken = types.includes("number") ? [...types, "integer"] : types;
  const samples = Object.entries(SAMPLES).filter(([type]) => !taken.includes(type));
  const texts = samples.map(([, sample]) => sample);
  const { minimum, maximum, maxLength } = schema;
  if (typeof minimum === "number" && typeof maximum === "number") {
    texts.push(`${minimum - 1}`, `${maximum + 1}`, "1e400", "99999999999999999999", "-0.5");
  }
  if (!types.includes("string")) return texts;
  texts.push('"\\ud800"', '"\\udc00x"', '"\\u0000"', '"a\\u007fb"', '"\\u0085"', '{"x":"y"}');
  texts.push("1.00000000000000000000");
  if (typeof maxLength === "number") texts.push(JSON.stringify("é".repeat(maxLength + 1)));
  return texts;
}

/** A good body with one field set to a JSON text. */
export function bodyWith(sound: Parts, field: string, text: string): string {
  return `${String(sound.body).slice(0, -1)},"${field}":${text}}`.replace("{,", "{");
}

/** The code and the pointers of a refused field; task_post names it in the task. */
function invalid({ operation: { takes } }: Case, pointers: readonly string[]) {
  return takes.body === undefined
    ? { expected: 20000, task: 40501 }
    : { expected: 40501, pointers };
}

function badField(each: Case): readonly Row[] {
  return Object.entries(fieldSchemas(each)).flatMap(([field, schema]) =>
    brokenTexts(schema).map((text) => {
      const parts = { ...each.sound, body: bodyWith(each.sound, field, text) };
      return { parts, field, cause: `${field}: ${text}`, ...invalid(each, [`/${field}`]) };
    }),
  );
}

function badFields(each: Case): readonly Row[] {
  const { operation, sound } = each;
  if (operation.takes.body === undefined) return [];
  const schemas = Object.entries(fieldSchemas(each));
  const given = schemas.map(([field, { type }]) => {
    return `"${field}":${[type].flat().includes("boolean") ? 1 : true}`;
  });
  const fields = schemas.map(([field]) => `/${field}`);
  const all = `{${[...given, '"a/b~c":1', '"":1'].join()}}`;
  const many = Array.from({ length: 1000 }, (_, i) => `"${i}":1`).join();
  const twenty = Array.from({ length: 20 }, (_, i) => `/${i}`);
  return [
    { parts: { ...sound, body: all }, expected: 40501, pointers: ["/a~1b~0c", "/", ...fields] },
    { parts: { ...sound, body: `{${many}}` }, expected: 40501, pointers: twenty },
  ];
}

function missingField({ operation, sound }: Case): readonly Row[] {
  const required = Object.entries(operation.takes.body ?? {}).filter(
    ([, { absent }]) => absent === null,
  );
  return required.flatMap(([field]) =>
    ["{}", `{"${field}":null}`, `{"${field.toUpperCase()}":"x"}`].map((body) => {
      return { parts: { ...sound, body }, cause: body, expected: 40501, pointer: `/${field}` };
    }),
  );
}

// As JSON text: names of members of every object, and names that no text may hold.
const STRANGE_NAMES = [
  ["__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "then", "", "'. "],
  ["\\ud800", "\\udc00\\ud800", "\\u0000", "a\\u000ab", "x".repeat(5000), `x${"😀".repeat(40)}`],
  ["../x", "a/b", "\\u005f_proto__", "isRequired", "parse", "valueOf", "__defineGetter__"],
].flat();

function unknownField({ operation, sound }: Case): readonly Row[] {
  const isPost = operation.takes.json !== undefined;
  return STRANGE_NAMES.flatMap((name) =>
    ["null", '{"admin":true}'].map((value) => {
      const body = `{"${name}":${value},${String(sound.body).slice(1)}`.replace(",}", "}");
      const parts = { ...sound, body };
      return isPost ? { parts, expected: 20000, task: 40506 } : { parts, expected: 40501 };
    }),
  );
}

function fieldTwice(each: Case): readonly Row[] {
  const { sound, status } = each;
  const whole = String(sound.body);
  return Object.entries(JSON.parse(whole) as object).flatMap(([field, value]) => {
    const [bad] = brokenTexts(fieldSchemas(each)[field] ?? {});
    if (bad === undefined) return [];
    const first = { ...sound, body: `{"${field}":${bad},${whole.slice(1)}` };
    const last = `${whole.slice(0, -1)},"${field}":${JSON.stringify(value)},"${field}":${bad}}`;
    return [
      { parts: first, expected: status },
      { parts: { ...sound, body: last }, field, ...invalid(each, [`/${field}`]) },
    ];
  });
}

const LIMITS = { message: 32 * 1024, leases: 1024 ** 2, results: 16 * 1024 ** 2 };

function largeBody({ operation: { takes }, sound, status }: Case): readonly Row[] {
  const least = takes.holds === undefined ? 8 * 1024 : LIMITS[takes.holds];
  const limit = takes.json === undefined ? least : 1024 ** 2;
  const padded = (bytes: number): Parts => ({ ...sound, body: String(sound.body).padEnd(bytes) });
  return [
    { parts: padded(limit), expected: status },
    {
      ...{ parts: padded(limit + 1), cause: `${limit + 1} bytes`, expected: 41300 },
      ...{ pointers: [""], headers: { connection: "close" } },
    },
  ];
}

function limitedBody({ sound, status }: Case): readonly Row[] {
  const padded = (bytes: number): readonly Parts[] =>
    bothWays(sound, String(sound.body).padEnd(bytes));
  return [
    ...padded(BODY_LIMIT).map((parts) => ({ parts, expected: status })),
    ...padded(BODY_LIMIT + 1).map((parts) => {
      return { parts, expected: 41300, headers: { connection: "close" } };
    }),
  ];
}

/** One fault of a request and its code. */
interface Fault {
  readonly code: number;
  readonly spoil: (parts: Parts) => Parts;
}

/** All faults of a request, in the order in which the contract checks them. */
function faultsOf({ operation: { access, takes } }: Case): readonly Fault[] {
  const bodyFaults: readonly Fault[] = [
    { code: 41500, spoil: (parts) => ({ ...parts, media: ["Content-Type: text/plain"] }) },
    {
      code: 41300,
      spoil: (parts) => ({ ...parts, body: `${String(parts.body)}${" ".repeat(BODY_LIMIT)}` }),
    },
    { code: 40503, spoil: (parts) => ({ ...parts, body: "[" }) },
  ];
  const badCredentials = ["Authorization: Bearer x"];
  const faults: readonly (Fault | false)[] = [
    { code: 40400, spoil: (parts) => ({ ...parts, path: `${parts.path}/nothing/at/all` }) },
    { code: 40500, spoil: (parts) => ({ ...parts, method: "PATCH" }) },
    { code: 40000, spoil: (parts) => ({ ...parts, host: ["Host: a", "Host: b"] }) },
    access !== "public" && {
      code: 40100,
      spoil: (parts) => ({ ...parts, credentials: badCredentials }),
    },
    { code: 40000, spoil: (parts) => ({ ...parts, query: "?nonsense=1" }) },
    ...(takesBody(takes) ? bodyFaults : []),
    takes.body !== undefined && {
      code: 40501,
      spoil: (parts) => ({ ...parts, body: '{"nonsense":1}' }),
    },
  ];
  return faults.filter((each) => each !== false);
}

function twoFaults(each: Case): readonly Row[] {
  const faults = faultsOf(each);
  const pairs = faults.flatMap((first, i) =>
    faults.slice(i).map((second) => {
      // The later fault is applied first, so that a large body stays large.
      return { parts: first.spoil(second.spoil(each.sound)), expected: first.code };
    }),
  );
  const worst = faults.reduceRight((parts, { spoil }) => spoil(parts), each.sound);
  return [...pairs, { parts: worst, expected: 40400 }].map((row) => {
    return [40400, 40500].includes(row.expected) ? { ...row, isUndocumented: true as const } : row;
  });
}

/** The reader of the body: the parser of tasks, of leases or results, or of a few fields; and if the body may be missing. */
function reader({ operation: { takes } }: Case): string {
  return `${takes.json === undefined} ${takes.holds} ${takes.isBodyOptional}`;
}

const READER_KINDS: readonly Kind[] = [
  { rule: "a body other than JSON in UTF-8 is 41500", rows: media },
  { rule: "an empty body is 40502, or equal to {} if the body is optional", rows: empty },
  { rule: "a body that is not JSON is 40503 and is not repeated", rows: notJson },
  { rule: "a body that is cut off anywhere is 40503", rows: cutOff },
  { rule: "a body that is not UTF-8 is 40503", rows: notUtf8 },
  { rule: "a body with too many levels is 40503, closed or not", rows: tooDeep },
  { rule: "JSON other than an object is 40503", rows: notObject },
  { rule: "an unknown field is refused by its name", rows: unknownField },
  { rule: "the last of two fields with one name counts", rows: fieldTwice },
  { rule: "a body over the limit of its operation is 41300", rows: largeBody },
].map((kind) => ({ ...kind, sharedBy: reader }));

/** Rules of the operations that take a body. */
export const BODY_KINDS: readonly Kind[] = [
  ...READER_KINDS,
  { rule: "all invalid fields are listed, unknown ones first, up to twenty", rows: badFields },
  { rule: "an invalid field is named with 40501", rows: badField },
  { rule: "a required field that is missing or null is named with 40501", rows: missingField },
].map((kind) => {
  return {
    ...kind,
    rows: (each, tested) => (takesBody(each.operation.takes) ? kind.rows(each, tested) : []),
  };
});

/** Rules for a daemon with {@link BODY_LIMIT}. */
export const LIMIT_KINDS: readonly Kind[] = [
  {
    rule: "a body of limits.body bytes is taken, one more byte is 41300",
    rows: (each) => (takesBody(each.operation.takes) ? limitedBody(each) : []),
  },
  {
    ...{ rule: "the first of two faults in the contract's order is returned", rows: twoFaults },
    sharedBy: (each) => `${each.operation.access} ${reader(each)}`,
  },
];
