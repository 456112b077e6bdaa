import assert from "node:assert/strict";
import { createServer } from "node:net";
import type { Socket } from "node:net";
import type { TestContext } from "node:test";

import { closeServer, listen, toLoopback } from "../helpers/receiver.ts";

/** The head of one request as Latin-1, split into lines but not parsed. */
export interface WireRequest {
  readonly method: string;
  readonly requestTarget: string;
  /** The values of all lines of this name (lower case), as they stood. */
  readonly values: (name: string) => readonly string[];
  /** The URL that a receiver of a pingback verifies: scheme, Host and request target. */
  readonly url: string;
}

export interface WireReceiver {
  readonly port: number;
  readonly requests: readonly WireRequest[];
  /** All requests, as soon as there are at least `count`. */
  waitFor(count: number): Promise<readonly WireRequest[]>;
}

const WAIT_MS_MAX = 30_000;

/**
 * Listens on a loopback address and responds 204 to each request without a body, over one connection. It keeps the
 * bytes of the request, so that no second parser hides a difference.
 */
export async function startWireReceiver(
  t: TestContext,
  options: { readonly host?: string; readonly port?: number } = {},
): Promise<WireReceiver> {
  const requests: WireRequest[] = [];
  const sockets = new Set<Socket>();
  const watches = new Set<() => void>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => sockets.delete(socket));
    let received = "";
    socket.on("data", (chunk: Buffer) => {
      received += chunk.toString("latin1");
      for (let end = received.indexOf(END); end >= 0; end = received.indexOf(END)) {
        requests.push(toRequest(received.slice(0, end)));
        received = received.slice(end + END.length);
        socket.write("HTTP/1.1 204 No Content\r\n\r\n");
      }
      for (const watch of watches) watch();
    });
  });
  t.after(async () => {
    for (const socket of sockets) socket.destroy();
    await closeServer(server);
  });
  const host = toLoopback(options.host);
  const port = await listen(server, { host, port: options.port ?? 0 });
  return { port, requests, waitFor: (count) => whenThere({ requests, watches, count }) };
}

const END = "\r\n\r\n";

function toRequest(head: string): WireRequest {
  const [requestLine = "", ...lines] = head.split("\r\n");
  const parts = /^([A-Z]+) (.*) HTTP\/1\.1$/s.exec(requestLine);
  assert(parts !== null, `this is no request line: ${JSON.stringify(requestLine)}`);
  const [, method = "", requestTarget = ""] = parts;
  const values = (name: string): readonly string[] =>
    lines.flatMap((line) =>
      line.toLowerCase().startsWith(`${name}: `) ? [line.slice(name.length + 2)] : [],
    );
  const hosts = values("host");
  assert.equal(hosts.length, 1, `there are ${hosts.length} Host lines`);
  return { method, requestTarget, values, url: `http://${hosts[0] ?? ""}${requestTarget}` };
}

function whenThere(wanted: {
  readonly requests: readonly WireRequest[];
  readonly watches: Set<() => void>;
  readonly count: number;
}): Promise<readonly WireRequest[]> {
  const { requests, watches, count } = wanted;
  return new Promise((resolve, reject) => {
    const watch = (): void => {
      if (requests.length < count) return;
      watches.delete(watch);
      clearTimeout(timeout);
      resolve(requests);
    };
    const timeout = setTimeout(() => {
      watches.delete(watch);
      reject(new Error(`${count} requests were expected and ${requests.length} arrived`));
    }, WAIT_MS_MAX);
    watches.add(watch);
    watch();
  });
}
