import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { namedSchemas } from "../../src/api/schema.ts";
import { PostedTask } from "../../src/api/task.ts";
import { EMPTY_ALLOW_LIST } from "../../src/domain/address/allow-list.ts";
import { parseJsonBytes, type JsonObject } from "../../src/domain/json/json.ts";
import { parseTask, type TaskRules } from "../../src/domain/task/task-post.ts";
import { Judge } from "./api-document.ts";

const judge = new Judge();
const SCHEMA = namedSchemas(PostedTask)["PostedTask"] ?? assert.fail();

const RULES: TaskRules = {
  types: new Set(["echo"]),
  marketplaces: new Set(["us", "de"]),
  urlPolicy: { allow: EMPTY_ALLOW_LIST, ownNames: [], ownAddresses: [] },
};

// A schema cannot limit how far ahead start_at is: all of the times are before the limit.
const NOW = Date.parse("9990-01-02T00:00:00Z");

const ID = "018e2f1c-0a00-7abc-8def-0123456789ab";

/** The name of the field that the parser refuses; null if it accepts the task. */
function refusedField(posted: JsonObject): string | null {
  const document = parseJsonBytes(Buffer.from(JSON.stringify(posted)));
  assert(document.kind === "json");
  // A task is an object, and so is its JSON.
  const parsed = parseTask(document.value as JsonObject, { id: ID, now: NOW, rules: RULES });
  if (parsed.kind === "accepted") return null;
  const { detail } = JSON.parse(parsed.task.errorText) as { detail: { field: string } };
  return detail.field;
}

const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;

const tag = fc
  .array(
    fc.string({ unit: "binary", minLength: 1, maxLength: 1 }).filter((text) => !CONTROL.test(text)),
    { maxLength: 255, size: "max" },
  )
  .map((points) => points.join(""));

const time = fc
  .tuple(
    fc.date({ min: new Date(0), max: new Date("9990-01-01"), noInvalidDate: true }),
    fc.constantFrom("Z", "z", "+00:00", "-23:59", "+05:30"),
    fc.constantFrom("", ".0", ".123456789"),
  )
  .map(([date, zone, fraction]) => date.toISOString().replace(/\.\d+Z$/, fraction + zone));

const url = fc
  .tuple(
    fc.constantFrom("http://", "https://", "HTTPS://", "hTTp://"),
    fc.constantFrom("example.com", "EXAMPLE.com:8443", "b\u00fccher.example", "93.184.216.34"),
    fc.webPath({ size: "small" }),
    fc.constantFrom("", "?id=$id&tag=$tag", "#top", `#${"x".repeat(5000)}`),
  )
  .map((parts) => parts.join(""));

const fields = {
  type: fc.constantFrom("echo", null),
  tag: fc.option(tag),
  marketplace: fc.constantFrom("us", "de", null),
  priority: fc.option(fc.integer({ min: 0, max: 9 })),
  start_at: fc.option(time),
  postback_url: fc.option(url),
  pingback_url: fc.option(url),
  input: fc.jsonValue(),
};

const task = fc.record(fields, { requiredKeys: [] });

test("the parser accepts every task of the schema with a known type, marketplace and public URLs", () => {
  fc.assert(
    fc.property(task, (posted) => {
      judge.assertFits(SCHEMA, posted);
      // A pingback with a long tag exceeds the limit of URLs, which a schema cannot have.
      fc.pre((posted.tag ?? "").length < 100);
      assert.equal(refusedField(posted), null);
    }),
  );
});

const notText = fc.oneof(fc.integer(), fc.boolean(), fc.array(fc.string()), fc.constant({}));

// Values that break the rule of their field.
const violations: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  type: notText,
  tag: fc.oneof(
    notText,
    tag.map((text) => text + "x".repeat(256)),
    tag.map((text) => `${text}\u0000`),
    tag.map((text) => `\u009f${text}`),
    fc.constantFrom("\n", "\t", "\u007f", "\u{1f600}".repeat(256)),
  ),
  marketplace: notText,
  priority: fc.oneof(
    fc.integer({ min: 10 }),
    fc.integer({ max: -1 }),
    fc.double({ noInteger: true, noNaN: true, noDefaultInfinity: true }),
    fc.constantFrom("1", true, [1], {}),
  ),
  start_at: fc.oneof(
    notText,
    time.map((text) => text.replace(/([Zz]|[+-]\d\d:\d\d)$/, "")),
    time.map((text) => `${text} `),
    time.map((text) => text.slice(0, 10)),
    fc.constantFrom("", "now", "2030-02-30T09:00:00Z", "2030-01-31T24:00:00Z", "1769850000"),
  ),
  postback_url: fc.oneof(notText, fc.constantFrom("", "ftp://example.com/", " https://a.example")),
  pingback_url: fc.oneof(notText, fc.constantFrom("$id", "//example.com/", "http:example.com")),
};

test("the schema refuses no field that the parser accepts", () => {
  const names = fc.constantFrom(...Object.keys(fields));
  const value = fc.oneof(fc.jsonValue(), ...Object.values(fields), ...Object.values(violations));
  fc.assert(
    fc.property(names, value, (name, some) => {
      const posted = { [name]: some };
      if (judge.fault(SCHEMA, posted) !== null) assert.equal(refusedField(posted), name);
    }),
    { numRuns: 2000 },
  );
});

test("the parser refuses every field that the schema does not have", () => {
  const unknown = fc.string({ maxLength: 64 }).filter((name) => !Object.hasOwn(fields, name));
  fc.assert(
    fc.property(task, unknown, fc.jsonValue(), (posted, name, value) => {
      const bad = { ...posted, ...Object.fromEntries([[name, value]]) };
      assert.notEqual(judge.fault(SCHEMA, bad), null);
      assert.equal(refusedField(bad), name);
    }),
  );
});
