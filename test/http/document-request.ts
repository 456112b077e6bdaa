import assert from "node:assert/strict";

import { newWebhookSecret } from "../../src/domain/account/key.ts";
import { createTestAccount, type TestDaemon } from "../helpers/daemon.ts";
import { deliveryFilter, newOrder } from "../helpers/delivery.ts";
import { farStart } from "../helpers/far-start.ts";
import { sessionName } from "../helpers/session-name.ts";
import { newTaskId } from "../helpers/store.ts";
import type { DocumentedField, PlacedOperation } from "./api-document.ts";
import { atStore } from "./session-requests.ts";

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
