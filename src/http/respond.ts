import { FastResponse } from "srvx";

import { STATUS_TABLE, StatusError } from "../domain/status.ts";
import { StoreError } from "../store/store.ts";
import type { Answer } from "./operation.ts";

const RETRY_AFTER_SECONDS = "1";

/** A response that h3 sends as it is. */
export function toResponse(answer: Answer, requestId: string): Response {
  const headers = headerLines(answer, requestId);
  return new FastResponse(answer.text, { status: answer.status, headers });
}

function headerLines(answer: Answer, requestId: string): [string, string][] {
  const lines: [string, string][] = [
    ["content-type", "application/json"],
    ["x-request-id", requestId],
    ["x-content-type-options", "nosniff"],
  ];
  for (const [name, value] of Object.entries(answer.headers ?? {})) {
    for (const line of typeof value === "string" ? [value] : value) lines.push([name, line]);
  }
  return lines;
}

/** The answer to a request that ended in an error the caller may see (contract §1). */
export function toErrorAnswer(error: StatusError): Answer {
  const body = {
    status_code: error.code,
    status_message: error.message,
    ...(error.details.length > 0 ? { errors: error.details } : {}),
  };
  return { status: error.httpStatus, text: JSON.stringify(body), headers: error.headers };
}

/** The status of any error; null for one that is a bug and must leak nothing. */
export function toStatusError(error: unknown): StatusError | null {
  if (error instanceof StatusError) return error;
  if (!(error instanceof StoreError)) return null;
  if (error.kind === "full") return new StatusError(50700);
  return new StatusError(50300, { headers: { "retry-after": RETRY_AFTER_SECONDS } });
}

/** The bytes of a response to what never became a request, for a socket that Node hands over raw. */
export function toRawResponse(error: StatusError, requestId: string): string {
  const answer = toErrorAnswer(error);
  const reason = STATUS_TABLE[error.code].message.replace(".", "");
  return [
    `HTTP/1.1 ${error.httpStatus} ${reason}`,
    ...headerLines(answer, requestId).map(([name, value]) => `${name}: ${value}`),
    `content-length: ${Buffer.byteLength(answer.text)}`,
    "connection: close",
    "",
    answer.text,
  ].join("\r\n");
}
