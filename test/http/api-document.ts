import assert from "node:assert/strict";

import formats from "ajv-formats";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";

import { type JsonSchema, namedSchemas } from "../../src/api/schema.ts";
import { newWebhookSecret } from "../../src/domain/account/key.ts";
import { type TestDaemon, createTestAccount } from "../helpers/daemon.ts";
import { deliveryFilter, newOrder } from "../helpers/delivery.ts";
import { farStart } from "../helpers/far-start.ts";
import { sessionName } from "../helpers/session-name.ts";
import { newTaskId } from "../helpers/store.ts";
import { atStore } from "./session-requests.ts";

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

/** A request that the document describes. */
export interface DocumentedRequest {
  readonly operation: PlacedOperation;
  /** The named parts of the path; the document's examples unless given. */
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: string;
  /** Headers over the credentials. An empty value removes a header. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** The text of a body. */
  readonly text?: string;
}

/** A daemon with an account, a worker and a session of the operator. */
export interface DocumentedDaemon extends TestDaemon {
  /** The token of a worker for the type of the document's examples. */
  readonly token: string;
  /** The value of a cookie of the operator's. */
  readonly session: string;
}

/** Sends a request of the document to a daemon. */
export function send(daemon: DocumentedDaemon, request: DocumentedRequest): Promise<Response> {
  const { operation, params = {}, query, body } = request;
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(params[name] ?? exampleOf(operation, name)),
  );
  const text = request.text ?? (body === undefined ? undefined : JSON.stringify(body));
  const headers = credentialsOf(daemon, operation);
  if (text !== undefined) headers.set("content-type", "application/json");
  for (const [name, value] of Object.entries(request.headers ?? {})) {
    if (value === "") headers.delete(name);
    else headers.set(name, value);
  }
  const init = { method: operation.method, headers, ...(text === undefined ? {} : { body: text }) };
  return fetch(daemon.url + path + (query === undefined ? "" : `?${query}`), init);
}

/** The credentials that the document names: a key, a token or a session of a page. */
function credentialsOf(
  { url, token, session, account: { key } }: DocumentedDaemon,
  { security, path }: PlacedOperation,
): Headers {
  const takes = (name: string): boolean => security.some((scheme) => name in scheme);
  const headers = new Headers(PAGE_HEADERS);
  if (takes("worker")) headers.set("authorization", `Bearer ${token}`);
  if (takes("bearer")) headers.set("authorization", `Bearer ${key}`);
  const isSessions = (takes("session") && !takes("bearer")) || path === "/v1/session";
  if (isSessions) headers.set("cookie", `${sessionName(url)}=${session}`);
  return headers;
}

const PAGE_HEADERS = { "sec-fetch-site": "same-origin", "x-requested-with": "postbackd" };

/** A request for each body and each query parameter that the document shows, each with its examples. */
export function requestsOf(operation: PlacedOperation): readonly DocumentedRequest[] {
  const { requestBody } = operation;
  const shown = requestBody?.content["application/json"].examples ?? {};
  const bodies = Object.values(shown).map(({ value }) => ({ operation, body: value }));
  if (requestBody !== undefined) assert(bodies.length > 0, "a body without an example");
  if (requestBody?.required === true) return bodies;
  const queries = (operation.parameters ?? [])
    .filter((field) => field.in === "query")
    .flatMap((field) => sampleValues(field).map((value) => `${field.name}=${value}`));
  return [{ operation }, ...bodies, ...queries.map((query) => ({ operation, query }))];
}

// The ends of a range, and all words of an enumeration.
function sampleValues({ schema }: DocumentedField): readonly string[] {
  const { type, minimum, maximum, default: standard, examples, enum: words } = schema;
  const listed = [examples, words].flatMap((list) => (Array.isArray(list) ? list : []));
  const bounds = [minimum, maximum, standard].filter((value) => value !== undefined);
  const values = [...listed, ...bounds, ...(type === "boolean" ? [true, false] : [])];
  if (values.length === 0) values.push("sample");
  return [...new Set(values)].map((value) => encodeURIComponent(String(value)));
}

function exampleOf({ parameters = [], operationId }: PlacedOperation, name: string): string {
  const example = parameters.find((each) => each.in === "path" && each.name === name)?.example;
  return example ?? assert.fail(`${operationId} has no example of ${name}`);
}

/** Values for the named parts of a path: new things that no request has changed. */
export async function existingThings(
  daemon: TestDaemon,
  operation: PlacedOperation,
  state: "unfinished" | "finished",
): Promise<Readonly<Record<string, string>>> {
  const names = [...operation.path.matchAll(/\{(\w+)\}/g)].flatMap(([, name = ""]) => [name]);
  const values = await Promise.all(
    names.map(async (name) => [name, await existing(daemon, name, { operation, state })] as const),
  );
  return Object.fromEntries(values);
}

async function existing(
  daemon: TestDaemon,
  name: string,
  {
    operation: { operationId },
    state,
  }: { readonly operation: PlacedOperation; readonly state: "unfinished" | "finished" },
): Promise<string> {
  if (name === "key_id") return newKeyId(daemon);
  if (name === "order_id") return newOrderId(daemon);
  if (name === "login") return newLogin(daemon, { isRotating: operationId === "finishRotation" });
  if (name === "request_id") return newRequestId(daemon);
  assert.equal(name, "id", "say here how to make one");
  // The clock of the daemon may be a virtual one.
  const [first] = (await daemon.post({ type: "echo" })).tasks;
  const later = { type: "echo", start_at: farStart(Date.parse(first?.created_at ?? "")) };
  // No receiver listens there, so the delivery has a failed attempt.
  const ended = { type: "echo", postback_url: "http://127.0.0.1:9/hook" };
  const { tasks } = await daemon.post(state === "finished" ? ended : later);
  if (state === "finished") await daemon.daemon.idle();
  return tasks[0]?.id ?? assert.fail("no task was made");
}

async function newLogin(
  { file }: TestDaemon,
  { isRotating }: { readonly isRotating: boolean },
): Promise<string> {
  const login = `account-${newTaskId()}`;
  await createTestAccount(file, login);
  const next = newWebhookSecret();
  if (isRotating) await atStore(file, (store) => store.rotateSecret({ login, next }));
  return login;
}

async function newRequestId({ file }: TestDaemon): Promise<string> {
  const id = newTaskId();
  const fields = { email: "ada@example.com", name: null, company: null, message: null };
  const request = { id, fields, createdAt: 0, pendingMax: 1000 };
  await atStore(file, (store) => store.insertAccessRequest(request));
  return id;
}

async function newOrderId({ file, account }: TestDaemon): Promise<string> {
  const order = newOrder({ filter: deliveryFilter({ login: account.login }) });
  await atStore(file, (store) => store.orderRedelivery({ ...order, openMax: null }));
  return order.id;
}

async function newKeyId(daemon: TestDaemon): Promise<string> {
  const response = await daemon.call("/v1/appendix/keys", { method: "POST" });
  // The shape is the contract's; a test that reads a field that is not there fails by itself.
  const { key } = (await response.json()) as { readonly key: { readonly key_id: string } };
  return key.key_id;
}
