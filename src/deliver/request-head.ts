import type { SendRequest } from "../domain/webhook/webhook-request.ts";

const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
// Whatever could end a line, or be read in two ways, is in no value; the target of a request has no spaces either.
const VALUE = /^[\t\x20-\x7e]*$/;
const TARGET = /^[\x21-\x7e]+$/;

/**
 * The head of a request as text of ASCII characters, with the empty line behind it. Null when it cannot be written:
 * nothing in it may begin another line. Host, Content-Length and Connection are written here and nowhere else.
 */
export function requestHead(request: SendRequest): string | null {
  const { method, target, headers, body } = request;
  const { hostHeader, requestTarget } = target;
  if (!TARGET.test(requestTarget) || !TARGET.test(hostHeader)) return null;
  let head = `${method} ${requestTarget} HTTP/1.1\r\nHost: ${hostHeader}\r\n`;
  for (const [name, value] of Object.entries(headers)) {
    if (!NAME.test(name) || !VALUE.test(value)) return null;
    head += `${name}: ${value}\r\n`;
  }
  if (method === "POST") head += `Content-Length: ${Buffer.byteLength(body ?? "")}\r\n`;
  return `${head}Connection: keep-alive\r\n\r\n`;
}
