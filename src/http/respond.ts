import { promisify } from "node:util";
import { gzip } from "node:zlib";

import { FastResponse } from "srvx";

import { entityTag } from "../domain/id.ts";
import { type ResponseHeaders, STATUS_TABLE, StatusError } from "../domain/status.ts";
import { StoreError } from "../store/store.ts";
import { weighted } from "./guard/client.ts";
import type { AnswerHeaderDoc, Call, WholeAnswer } from "./operation.ts";

const RETRY_AFTER_SECONDS = "1";

/** The parts of a response that do not depend on its content. */
export interface Reply {
  readonly requestId: string;
  /** The request was a HEAD: only the headers of the answer are sent. */
  readonly isHead: boolean;
  /** Headers about HTTPS, caches and limits; the response's own headers come last. */
  headers: ResponseHeaders;
}

export function toResponse(answer: WholeAnswer, reply: Reply): Response {
  const { status } = answer;
  const headers = headerLines(answer, reply);
  if (reply.isHead) return headOnly(answer, headers);
  if (answer.stream !== undefined)
    return new FastResponse(answer.stream.open(), { status, headers });
  // The constructor refuses these with any body, even an empty one.
  if (BODILESS.has(status)) return new FastResponse(null, { status, headers });
  // Anything but a view of its own bytes would be copied.
  const body = (answer.bytes ?? answer.text) as Uint8Array<ArrayBuffer> | string;
  return new FastResponse(body, { status, headers });
}

const BODILESS: ReadonlySet<number> = new Set([204, 205, 304]);

// h3 would leave out the length together with the body.
function headOnly(answer: WholeAnswer, headers: [string, string][]): Response {
  const { status, text, bytes, stream } = answer;
  const length: [string, string] = ["content-length", String(Buffer.byteLength(bytes ?? text))];
  const hasLength = !BODILESS.has(status) && stream === undefined;
  return new FastResponse(null, { status, headers: hasLength ? [...headers, length] : headers });
}

function headerLines(
  answer: WholeAnswer,
  { requestId, headers }: Omit<Reply, "isHead">,
): [string, string][] {
  const lines: [string, string][] = BODILESS.has(answer.status) ? [] : [contentType(answer)];
  lines.push(["x-request-id", requestId], ["x-content-type-options", "nosniff"]);
  addLines(lines, headers);
  if (answer.headers !== undefined) addLines(lines, answer.headers);
  return lines;
}

const JSON_TYPE: [string, string] = ["content-type", "application/json"];

function contentType({ stream, contentType: own = stream?.contentType }: WholeAnswer) {
  return own === undefined ? JSON_TYPE : (["content-type", own] satisfies [string, string]);
}

/** Adds headers to a response, a line for each value. */
export function addLines(lines: [string, string][], headers: ResponseHeaders): void {
  for (const [name, value] of Object.entries(headers)) {
    for (const line of typeof value === "string" ? [value] : value) lines.push([name, line]);
  }
}

/** For answers that hold an account's data: no cache keeps them. */
export const NO_STORE = { "cache-control": "no-store" } as const;

/** The envelope of an operation that is not about tasks: the status, then its own fields. */
export function envelope(fields: object): string {
  const { message } = STATUS_TABLE[20000];
  return JSON.stringify({ status_code: 20000, status_message: message, ...fields });
}

/** The answer to a request that ended in an error that the caller may see (http-api.md). */
export function toErrorAnswer(error: StatusError): WholeAnswer {
  const body = {
    status_code: error.code,
    status_message: error.message,
    ...(error.details.length > 0 ? { errors: error.details } : {}),
  };
  return { status: error.httpStatus, text: JSON.stringify(body), headers: error.headers };
}

const FATE_UNKNOWN =
  "It is not known whether this was done. A task_post with an Idempotency-Key can be sent again with the same key and " +
  "body: it is never done twice. Of anything else, look first what is there.";

/** The status of any error; null for a bug, which must leak nothing. */
export function toStatusError(error: unknown): StatusError | null {
  if (error instanceof StatusError) return error;
  if (!(error instanceof StoreError)) return null;
  if (error.kind === "full") return new StatusError(50700);
  const headers = { "retry-after": RETRY_AFTER_SECONDS };
  if (error.kind === "unknown") return new StatusError(50300, { headers, detail: FATE_UNKNOWN });
  return new StatusError(50300, { headers });
}

/** The bytes of a response to input that never became a request, for a socket that Node hands over raw. */
export function toRawResponse(
  error: StatusError,
  reply: Pick<Reply, "requestId" | "headers">,
): string {
  const answer = toErrorAnswer(error);
  const reason = STATUS_TABLE[error.code].message.replace(".", "");
  return [
    `HTTP/1.1 ${error.httpStatus} ${reason}`,
    ...headerLines(answer, reply).map(([name, value]) => `${name}: ${value}`),
    `content-length: ${Buffer.byteLength(answer.text)}`,
    "connection: close",
    "",
    answer.text,
  ].join("\r\n");
}

/** How the document shows the headers of a response with an ETag that caches may keep. */
export const CACHED_HEADERS: Readonly<Record<string, AnswerHeaderDoc>> = {
  ETag: { description: "Changes when the answer does.", isAlways: true },
  "Cache-Control": { description: "How long it may be kept without asking.", isAlways: true },
};

/** True when `If-None-Match` names the tag, or everything (RFC 9110 §13.1.2). */
function isKnownToClient(call: Pick<Call, "headers">, tag: string): boolean {
  const listed = call.headers("if-none-match").flatMap((line) => line.split(","));
  return listed
    .map((each) => each.trim().replace(/^W\//, ""))
    .some((each) => each === tag || each === "*");
}

/** The response with its ETag; 304 without a body for a client that already has it. */
export function withEntityTag(
  call: Pick<Call, "headers">,
  answer: WholeAnswer,
  tag = entityTag(answer.bytes ?? answer.text),
): WholeAnswer {
  const headers = { ...answer.headers, etag: tag };
  if (isKnownToClient(call, tag)) return { status: 304, text: "", headers };
  return { ...answer, headers };
}

/**
 * An answer that never changes: its bytes and its tag are made once, at the first request, and every answer shares
 * them.
 */
export function constantAnswer(
  makeText: () => string | Promise<string>,
  headers: ResponseHeaders,
): (call: Pick<Call, "headers">) => Promise<WholeAnswer> {
  let made: Promise<{ readonly bytes: Uint8Array; readonly tag: string }> | null = null;
  const make = async () => {
    const bytes = Buffer.from(await makeText());
    return { bytes, tag: entityTag(bytes) };
  };
  const makeOnce = () =>
    (made ??= make().catch((error: unknown) => {
      // The next request tries again.
      made = null;
      throw error;
    }));
  return async (call) => {
    const { bytes, tag } = await makeOnce();
    return withEntityTag(call, { status: 200, text: "", bytes, headers }, tag);
  };
}

// Below that it is one packet in any case.
const COMPRESSED_BYTES_MIN = 1400;
// Hashing more would take the main thread half a millisecond.
const TAGGED_BYTES_MAX = 256 * 1024;
// Of 200 tasks in 95 KB level 1 makes 8.4 KB in 0.16 ms, level 6 7.9 KB in 0.63 (2026-11-26).
const LEVEL = 1;
const compress = promisify(gzip);

/**
 * An answer to the dashboard's code, which asks for the same again and again: compressed, in a thread of Node's own, and
 * with a tag where the page says by `If-None-Match` what it has, if only `""`, so that it is sent when it has changed.
 * Clients with a key get their answers as they are: they pay more for the time than for the bytes.
 */
export async function pageAnswer(
  call: Pick<Call, "headers">,
  answer: WholeAnswer,
): Promise<WholeAnswer> {
  if (answer.stream !== undefined || answer.status !== 200) return answer;
  const bytes = answer.bytes ?? Buffer.from(answer.text);
  const hasTag = answer.headers !== undefined && "etag" in answer.headers;
  const wantsTag = !hasTag && call.headers("if-none-match").length > 0;
  const isTagged = wantsTag && bytes.length <= TAGGED_BYTES_MAX;
  const tagged = isTagged ? withEntityTag(call, answer, entityTag(bytes)) : answer;
  const isSent = tagged.status === 200 && bytes.length >= COMPRESSED_BYTES_MIN;
  if (!isSent || !acceptsCoding(call.headers("accept-encoding"))("gzip")) return tagged;
  const headers = { ...tagged.headers, "content-encoding": "gzip", vary: "accept-encoding" };
  return { ...tagged, text: "", bytes: await compress(bytes, { level: LEVEL }), headers };
}

/**
 * True for a coding that the values of `Accept-Encoding` accept (RFC 9110 §12.5.3). The client's preference among
 * several does not matter: the smallest serves it best.
 */
export function acceptsCoding(accepted: readonly string[]): (coding: "br" | "gzip") => boolean {
  const weights = new Map(weighted(accepted).map(({ name, quality }) => [name, quality]));
  return (coding) => (weights.get(coding) ?? weights.get("*") ?? 0) > 0;
}
