import assert from "node:assert/strict";

import formats from "ajv-formats";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";

import { namedSchemas, type JsonSchema } from "../../src/api/schema.ts";
import type { TestDaemon } from "../helpers/daemon.ts";

/** A schema of the document. */
export type Schema = Readonly<Record<string, unknown>>;

/** A header or another parameter of a request, or a header of an answer. */
export interface DocumentedField {
  readonly name: string;
  readonly in?: "path" | "query" | "header";
  readonly required?: boolean;
  readonly description: string;
  readonly schema: Schema;
  readonly example?: string;
}

interface Content {
  readonly "application/json": {
    readonly schema: Schema;
    readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
  };
}

/** The documented response of an operation with one HTTP status. */
export interface DocumentedAnswer {
  readonly description: string;
  readonly headers?: Readonly<Record<string, DocumentedField>>;
  readonly content?: Content;
}

/** An operation or a callback, as the document has it. */
export interface DocumentedOperation {
  readonly operationId: string;
  readonly description: string;
  readonly security: readonly Schema[];
  readonly parameters?: readonly DocumentedField[];
  readonly requestBody?: { readonly required: boolean; readonly content: Content };
  readonly responses: Readonly<Record<string, DocumentedAnswer>>;
  readonly callbacks?: Readonly<
    Record<string, Readonly<Record<string, Readonly<Record<string, DocumentedOperation>>>>>
  >;
}

/** The parts of the document that tests read. */
export interface ApiDocument {
  readonly openapi: string;
  readonly info: { readonly version: string; readonly license: Schema };
  readonly paths: Readonly<Record<string, Readonly<Record<string, DocumentedOperation>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>;
    readonly securitySchemes: Readonly<Record<string, Schema>>;
  };
}

/** An operation with its place. */
export interface PlacedOperation extends DocumentedOperation {
  /** In upper case. */
  readonly method: string;
  /** With `{name}` for its named parts. */
  readonly path: string;
}

/** The document that a daemon serves, and its text. */
export async function fetchDocument({
  url,
}: Pick<TestDaemon, "url">): Promise<{ readonly text: string; readonly document: ApiDocument }> {
  const response = await fetch(`${url}/openapi.json`);
  assert.equal(response.status, 200);
  const text = await response.text();
  const document: unknown = JSON.parse(text);
  // The linter checks that this is an OpenAPI document.
  return { text, document: withoutRefs(document, document) as ApiDocument };
}

/** A schema of src/api with its references resolved. */
export function wholeSchema(schema: JsonSchema): Schema {
  const root = { components: { schemas: namedSchemas(schema) } };
  // A schema with resolved references is a schema.
  return withoutRefs(schema, root) as Schema;
}

/** Every operation of a document, in its order. */
export function placedOperations({ paths }: ApiDocument): readonly PlacedOperation[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => {
      return { ...operation, path, method: method.toUpperCase() };
    }),
  );
}

/** The operation of this id. */
export function operationOf(document: ApiDocument, id: string): PlacedOperation {
  const operation = placedOperations(document).find(({ operationId }) => operationId === id);
  return operation ?? assert.fail(`the document has no operation ${id}`);
}

/** Checks values against schemas of a document, strictly. */
export class Judge {
  readonly #ajv: Ajv2020;
  readonly #validators = new Map<Schema, ValidateFunction>();

  constructor() {
    const ajv = new Ajv2020({
      strict: true,
      strictTypes: true,
      allowUnionTypes: true,
      allErrors: true,
    });
    // A CommonJS module that TypeScript takes for the namespace of its default export.
    formats.default(ajv);
    this.#ajv = ajv;
  }

  /** The error of a value, null if it fits. An unknown member is an error. */
  fault(schema: Schema, value: unknown): string | null {
    const validate = this.#validators.get(schema) ?? this.#ajv.compile(closed(schema) as Schema);
    this.#validators.set(schema, validate);
    return validate(value) ? null : this.#ajv.errorsText(validate.errors);
  }

  assertFits(schema: Schema, value: unknown): void {
    const fault = this.fault(schema, value);
    assert.equal(fault, null, `${fault}: ${JSON.stringify(value)?.slice(0, 500)}`);
  }

  /** Checks a response against the document; returns its status code, null if the body has none. Required headers must exist, and all headers must be documented. */
  async assertAnswerFits(operation: PlacedOperation, response: Response): Promise<number | null> {
    const { status, headers } = response;
    const where = `${operation.method} ${operation.path}, HTTP ${status}`;
    const answer = operation.responses[String(status)];
    // A stream does not end.
    const isStream = "text/event-stream" in (answer?.content ?? {});
    if (isStream) await response.body?.cancel();
    const text = isStream ? "" : await response.text();
    assert(answer !== undefined, `the document has no such answer: ${where}: ${text}`);
    this.assertHeadersFit(Object.entries(answer.headers ?? {}), new Map(headers));
    if (answer.content === undefined) {
      assert.equal(text, "", where);
      return null;
    }
    assert.deepEqual([headers.get("content-type")], Object.keys(answer.content), where);
    if (isStream) return null;
    // metrics.test.ts checks the text of metrics.
    if (!("application/json" in answer.content)) return null;
    const body: unknown = JSON.parse(text);
    this.assertFits(answer.content["application/json"].schema, body);
    if (typeof body !== "object" || body === null || !("status_code" in body)) return null;
    return Number(body.status_code);
  }

  /** Checks headers, by their names in lower case, against documented headers. */
  assertHeadersFit(
    documented: readonly (readonly [string, DocumentedField])[],
    sent: ReadonlyMap<string, string>,
  ): void {
    for (const [name, { required = false, schema }] of documented) {
      const value = sent.get(name.toLowerCase());
      assert(value !== undefined || !required, `${name} is promised and missing`);
      if (value !== undefined) this.assertFits(schema, toTyped(value, schema));
    }
    const known = new Set(documented.map(([name]) => name.toLowerCase()));
    const unknown = [...sent.keys()].filter((name) => !known.has(name) && !PLAIN.has(name));
    assert.deepEqual(unknown, [], "headers that the document does not know");
  }
}

/** The schema without additional members: clients accept members of later versions, but this version documents all of them. */
function closed(value: unknown, isPart = false): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((each) => closed(each, isPart));
  const all = Object.entries(value).map(([name, each]) => [name, closed(each, name === "allOf")]);
  // A part without required members only narrows its siblings.
  const isOpen = "properties" in value && (!isPart || "required" in value);
  return { ...(isOpen ? { additionalProperties: false } : {}), ...Object.fromEntries(all) };
}

// Headers of HTTP itself and of all responses.
const PLAIN: ReadonlySet<string> = new Set(
  [
    ["date", "content-type", "content-length", "transfer-encoding", "connection", "keep-alive"],
    // fetch accepts gzip.
    ["host", "x-content-type-options", "content-encoding", "vary", "strict-transport-security"],
  ].flat(),
);

function toTyped(text: string, { type }: Schema): unknown {
  return type === "integer" ? Number(text) : text;
}

const REF = "#/components/";

// No component refers to itself, so each reference can be resolved.
function withoutRefs(value: unknown, root: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((each) => withoutRefs(each, root));
  if ("$ref" in value) {
    const ref = String(value.$ref);
    assert(ref.startsWith(REF), ref);
    return withoutRefs(at(root, ref.slice(2).split("/")), root);
  }
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [name, withoutRefs(each, root)]),
  );
}

function at(root: unknown, steps: readonly string[]): unknown {
  return steps.reduce((place, step) => {
    const found =
      typeof place === "object" && place !== null ? Reflect.get(place, step) : undefined;
    return found ?? assert.fail(`${steps.join("/")} is not in the document`);
  }, root);
}
