import assert from "node:assert/strict";

import { STATUS_TABLE } from "../../src/domain/status.ts";
import type { Envelope, TestDaemon } from "../helpers/daemon.ts";
import { exchange, headerLines, headerOf, toBytes } from "../helpers/raw-http.ts";
import type { RawConnection, RawRequest, RawResponse } from "../helpers/raw-http.ts";

/** A response that was checked against the contract of all responses (http-api.md). */
export interface Answer {
  readonly response: RawResponse;
  /** Null for HEAD, for health checks and for the OpenAPI document, which have no envelope. */
  readonly code: number | null;
  readonly body: Partial<Envelope>;
  readonly requestId: string;
}

export const TASK_POST = "/v1/tasks/task_post";
export const TASKS_READY = "/v1/tasks/tasks_ready";
export const JSON_TYPE = "Content-Type: application/json";

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** The path of task_get for an id. */
export function taskGet(id: string, query = ""): string {
  return `/v1/tasks/task_get/${id}${query}`;
}

/** The header line of an account's key. */
export function bearer({ account }: Pick<TestDaemon, "account">): string {
  return `Authorization: Bearer ${account.key}`;
}

/** A task_post with the account's key. */
export function posting(
  daemon: Pick<TestDaemon, "account">,
  body: string | Uint8Array,
): RawRequest {
  return { method: "POST", target: TASK_POST, headers: [bearer(daemon), JSON_TYPE], body };
}

/** Sends one request on a connection of its own and checks its response. */
export async function ask(url: string, request: RawRequest): Promise<Answer> {
  return toAnswer(await exchange(url, request), request);
}

/** The status code of a response. */
export async function codeOf(url: string, request: RawRequest): Promise<number | null> {
  return (await ask(url, request)).code;
}

/** As {@link ask}, on an open connection. */
export async function askOn(connection: RawConnection, request: RawRequest): Promise<Answer> {
  connection.send(toBytes(request));
  const isHead = request.method === "HEAD";
  return toAnswer(await connection.next(isHead ? { to: "HEAD" } : {}), request);
}

/** Repeats a request while it is 50300: nodes of a cluster wait a second for rows that another node has locked. */
export async function unlessBusy<Given extends { readonly code: number | null }>(
  asked: () => Promise<Given>,
): Promise<Given> {
  const answer = await asked();
  return answer.code === 50300 ? unlessBusy(asked) : answer;
}

/** Checks a response against the contract of all responses. */
export function toAnswer(response: RawResponse, request: RawRequest = {}): Answer {
  const requestId = headerOf(response, "x-request-id") ?? "";
  assert.match(requestId, UUID_V7);
  assert.equal(headerOf(response, "x-content-type-options"), "nosniff");
  assert.deepEqual(headerLines(response, "access-control-allow-origin"), []);
  if (response.status === 304) return notModified(response, requestId);
  assert.equal(headerOf(response, "content-type"), "application/json");
  if (request.method === "HEAD") return { response, code: null, body: {}, requestId };
  const body: unknown = JSON.parse(response.body.toString());
  assert(typeof body === "object" && body !== null);
  // A test that reads a missing field fails.
  const shown = body as Partial<Envelope>;
  const code = shown.status_code ?? null;
  if (code === null)
    assert.match(response.body.toString(), /^\{("status":"(ok|unavailable)"|"openapi":"3\.1\.)/);
  else assertOfTable(response, shown);
  return { response, code, body: shown, requestId };
}

// RFC 9110 §15.4.5: a 304 has the headers of caches, and none of a body.
function notModified(response: RawResponse, requestId: string): Answer {
  for (const name of ["content-type", "content-length", "transfer-encoding"]) {
    assert.deepEqual(headerLines(response, name), [], name);
  }
  assert.match(headerOf(response, "etag") ?? "", /^"[!#-~]+"$/);
  assert.equal(response.body.length, 0);
  return { response, code: null, body: {}, requestId };
}

function assertOfTable(
  response: RawResponse,
  body: Partial<Envelope> & { status_message?: string },
) {
  const row = Object.entries(STATUS_TABLE).find(([code]) => Number(code) === body.status_code)?.[1];
  assert(row !== undefined, `no such code: ${body.status_code}`);
  assert.equal(response.status, row.http);
  // Only the message of 40501 has a field and a reason.
  if (body.status_code !== 40501) assert.equal(body.status_message, row.message);
  else assert.match(body.status_message ?? "", /^Invalid Field: '.*'\. \S.*\.$/s);
  for (const error of body.errors ?? []) {
    assert.match(error.pointer, /^(\/[^/]*)*$/);
    assert.match(error.detail, /^\S.*\.$/s);
  }
}

/** All warnings and errors of the log. */
export function complaints({ logLines }: Pick<TestDaemon, "logLines">): readonly string[] {
  return logLines.filter((line) => /"level":"(warn|error|fatal)"/.test(line));
}
