import { FastResponse } from "srvx";

import { STATUS_TABLE, StatusError, type ResponseHeaders } from "../domain/status.ts";
import { StoreError } from "../store/store.ts";
import type { WholeAnswer } from "./operation.ts";

const RETRY_AFTER_SECONDS = "1";

/** The parts of a response that do not depend on its content. */
export interface Reply {
  readonly requestId: string;
  /** The request was a HEAD: only the headers of the answer are sent. */
  readonly isHead: boolean;
  /** About HTTPS, caches and limits; those of the answer come last. */
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

/** Adds headers to those of a response, a line for each value. */
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

/** The answer to a request that ended in an error that the caller may see (contract §1). */
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
