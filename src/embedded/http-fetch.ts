import { request, type IncomingMessage } from "node:http";
import { Readable } from "node:stream";

/**
 * A `fetch` for the daemon of this process: `http:` alone, text bodies, no redirects. Node's own waits for the global `setImmediate`
 * before it uses a connection again, so a test with fake timers would wait for ever.
 */
export function httpFetch(
  input: string | URL | Request,
  init: RequestInit = {},
): Promise<Response> {
  const url = typeof input === "object" && "url" in input ? input.url : input;
  const { method = "GET", body, signal } = init;
  const headers = Object.fromEntries(new Headers(init.headers));
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, ...(signal && { signal }) });
    // An error after the response is the body's.
    sent.on("error", reject);
    sent.once("response", (message) => resolve(responseOf(message)));
    sent.end(body);
  });
}

// The constructor of Response throws if a response with such a status gets a body.
const NO_BODY = [204, 205, 304];

function responseOf(message: IncomingMessage): Response {
  const { statusCode: status = 0, statusMessage: statusText = "" } = message;
  const headers = new Headers();
  for (const [name, values = []] of Object.entries(message.headersDistinct)) {
    for (const value of values) headers.append(name, value);
  }
  const hasBody = !NO_BODY.includes(status);
  if (!hasBody) message.resume();
  const body = hasBody ? Readable.toWeb(message) : null;
  return new Response(body, { status, statusText, headers });
}
