import type { AttemptShown, DeliveryShown, HeaderLine } from "../shell/envelope.ts";
import { curlCommand } from "./curl.ts";

/** The request of an attempt, as far as it is known. */

/** A delivery whose request is known: its task has ended. */
export interface PreparedDelivery extends DeliveryShown {
  readonly request: NonNullable<DeliveryShown["request"]>;
}

/** True for a delivery whose request is known. */
export function isPrepared(delivery: DeliveryShown): delivery is PreparedDelivery {
  return delivery.request !== null;
}

/** The headers of a delivery as one attempt carried them. */
export function headersOf(
  { request }: PreparedDelivery,
  { request_headers: own }: Pick<AttemptShown, "request_headers">,
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

/** The request line and the headers, as they were sent. */
export function requestHead(delivery: PreparedDelivery, attempt: AttemptShown): string {
  const { method, target } = delivery.request;
  const lines = headersOf(delivery, attempt).map(([name, value]) => `${name}: ${value}`);
  return [`${method} ${target} HTTP/1.1`, ...lines].join("\n");
}

/** What `X-Signature` signs: the body or the URL; null where the body is not at hand. */
export function signedText({ kind, request, url }: PreparedDelivery): string | null {
  if (kind === "postback") return request.body?.text ?? null;
  return request.message === "" ? url : request.message;
}

/** The attempt as a curl command. */
export function attemptCurl(
  taskId: string,
  delivery: PreparedDelivery,
  attempt: AttemptShown,
): string {
  const { request, url } = delivery;
  return curlCommand({
    ...{ origin: globalThis.location.origin, taskId, method: request.method, url },
    ...{ headers: headersOf(delivery, attempt), body: request.body?.text ?? null },
    hasBody: request.method !== "GET",
  });
}
