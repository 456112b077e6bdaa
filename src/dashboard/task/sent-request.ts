import type { HeaderLine, TimelineAttempt, TimelineDelivery } from "../../api/timeline.ts";
import { curlCommand } from "./curl.ts";

/** Rebuilds the request of an attempt, as far as it is known. */

/** The headers of a delivery as one attempt carried them. */
export function headersOf(
  { request }: TimelineDelivery,
  { request_headers: own }: Pick<TimelineAttempt, "request_headers">,
): readonly HeaderLine[] {
  const rest = new Map(own.map((line) => [line[0].toLowerCase(), line]));
  const headers = request.headers.map((line) => {
    const name = line[0].toLowerCase();
    const changed = rest.get(name) ?? line;
    rest.delete(name);
    return changed;
  });
  return [...headers, ...rest.values()];
}

/** The request line and the headers, exactly as sent. */
export function requestHead(delivery: TimelineDelivery, attempt: TimelineAttempt): string {
  const { method, target } = delivery.request;
  const lines = headersOf(delivery, attempt).map(([name, value]) => `${name}: ${value}`);
  return [`${method} ${target} HTTP/1.1`, ...lines].join("\n");
}

/** The text that `X-Signature` signs: the body or the URL; null where the body is not at hand. */
export function signedText({ kind, request, url }: TimelineDelivery): string | null {
  if (kind === "postback") return request.body.text;
  return request.message === "" ? url : request.message;
}

/** The attempt as a curl command. */
export function attemptCurl(
  taskId: string,
  delivery: TimelineDelivery,
  attempt: TimelineAttempt,
): string {
  const { request, url } = delivery;
  return curlCommand({
    origin: globalThis.location.origin,
    taskId,
    method: request.method,
    url,
    headers: headersOf(delivery, attempt),
    body: request.body.text,
    hasBody: request.method !== "GET",
  });
}
