import type { IncomingMessage } from "node:http";

import { StatusError } from "../../domain/status.ts";
import type { Operation } from "../operation.ts";
import { connectionOf } from "../server/client-connection.ts";
import { headerValues } from "../server/raw-headers.ts";

const RETRY_AFTER_SECONDS = "5";

/** Whether a request came over one of the connections reserved for health checks and the operator. */
export function isOverReserve(request: IncomingMessage): boolean {
  return connectionOf(request)?.isReserve === true;
}

/** Before any look-up, refuses with 50300 a request that can be neither a health check nor the operator's. */
export function requireReserved(
  request: IncomingMessage,
  { isHealthCheck }: Pick<Operation, "isHealthCheck">,
): void {
  if (isHealthCheck !== true && headerValues(request, "cookie").length === 0) throw noPlace();
}

/** The answer to everybody else there. */
export function noPlace(): StatusError {
  const detail =
    "As many connections are open as may be (limits.connections): this one is for health checks and the operator alone.";
  return new StatusError(50300, { detail, headers: { "retry-after": RETRY_AFTER_SECONDS } });
}
