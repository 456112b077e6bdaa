import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, request as httpRequest } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

export interface PrefixProxy {
  readonly url: string;
  /** Says where requests go from now on. */
  passTo(url: string): void;
}

/**
 * A proxy that hands on what comes below `prefix` without the prefix, under another Host and with
 * X-Forwarded-* headers that are wrong: who trusts them rebuilds a wrong URL.
 */
export async function startPrefixProxy(t: TestContext, prefix: string): Promise<PrefixProxy> {
  let origin: string | null = null;
  const server = createServer((incoming, outgoing) => {
    assert(origin !== null);
    pass(incoming, outgoing, { origin, prefix });
  });
  server.listen(0, "127.0.0.1");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, "listening");
  // Of a TCP server it is never a text.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    passTo(url) {
      origin = url;
    },
  };
}

interface Route {
  readonly origin: string;
  readonly prefix: string;
}

function pass(incoming: IncomingMessage, outgoing: ServerResponse, route: Route): void {
  const { url = "", headers, method } = incoming;
  assert(url.startsWith(`${route.prefix}/`));
  const { hostname, port } = new URL(route.origin);
  const forwarded = {
    host: "internal.example",
    "x-forwarded-host": "wrong.example",
    "x-forwarded-proto": "https",
    "x-forwarded-prefix": "/wrong",
  };
  const path = url.slice(route.prefix.length);
  const onward = httpRequest({
    hostname,
    port,
    path,
    method,
    headers: { ...headers, ...forwarded },
    agent: false,
  });
  onward.once("error", () => outgoing.destroy());
  onward.once("response", (response) => {
    outgoing.writeHead(response.statusCode ?? 502);
    response.pipe(outgoing);
  });
  incoming.pipe(onward);
}
