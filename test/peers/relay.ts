import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { Server, Socket } from "node:net";
import type { TestContext } from "node:test";

import { closeServer, listen } from "../helpers/receiver.ts";
import type { PeerAddress } from "./peer-process.ts";

/** A request as it stood on the wire. */
export interface WireRequest {
  readonly method: string;
  readonly target: string;
  /** Names in lower case with their values, in the order of their lines. */
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Buffer;
}

/** A request that was relayed, and the status of its answer; 0 where the connection ended without one. */
export interface Exchange {
  readonly request: WireRequest;
  readonly status: number;
}

/** Stands between the daemon and a peer, passes the bytes of both on as they come, and reads along. */
export interface Relay {
  readonly port: number;
  /** The exchange with this `webhook-id`, past or future; rejects when it has not come in 15 s. */
  answered(webhookId: string): Promise<Exchange>;
}

/** Starts a relay to `peer`; it is closed after the test. */
export async function startRelay(
  t: TestContext,
  { host, port, peer }: PeerAddress & { readonly peer: PeerAddress },
): Promise<Relay> {
  const exchanges = new Map<string, PromiseWithResolvers<Exchange>>();
  const slotOf = (id: string): PromiseWithResolvers<Exchange> => {
    const slot = exchanges.get(id) ?? Promise.withResolvers<Exchange>();
    exchanges.set(id, slot);
    return slot;
  };
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(peer);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.once("close", () => sockets.delete(socket));
    }
    relay({
      near,
      far,
      note: (exchange) => slotOf(webhookIdOf(exchange.request)).resolve(exchange),
    });
  });
  t.after(() => end(server, sockets));
  const bound = await listen(server, { host, port });
  return { port: bound, answered: (id) => withinWait(slotOf(id).promise, id) };
}

/** The value of a header; empty where it is missing. */
export function headerOf(request: WireRequest, name: string): string {
  return request.headers.find(([each]) => each === name)?.[1] ?? "";
}

// More than the daemon's own deadline for an attempt.
const WAIT_MS_MAX = 30_000;

async function withinWait(exchange: Promise<Exchange>, webhookId: string): Promise<Exchange> {
  const late = Promise.withResolvers<never>();
  const complaint = new Error(`in ${WAIT_MS_MAX} ms there was no delivery ${webhookId}`);
  const timer = setTimeout(() => late.reject(complaint), WAIT_MS_MAX);
  try {
    return await Promise.race([exchange, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

function webhookIdOf(request: WireRequest): string {
  return headerOf(request, "webhook-id");
}

async function end(server: Server, sockets: ReadonlySet<Socket>): Promise<void> {
  const closed = [...sockets].map((socket) => once(socket, "close"));
  for (const socket of sockets) socket.destroy();
  await Promise.all([...closed, closeServer(server)]);
}

interface Ends {
  readonly near: Socket;
  readonly far: Socket;
  readonly note: (exchange: Exchange) => void;
}

// The daemon sends no request before the answer to the last one is complete, so there is at most one
// request without a status, and what the peer says after a status line belongs to that answer.
function relay({ near, far, note }: Ends): void {
  let asked = Buffer.alloc(0);
  let answer = "";
  let request: WireRequest | null = null;
  const settle = (status: number): void => {
    if (request !== null) note({ request, status });
    request = null;
  };
  near.on("data", (chunk: Buffer) => {
    asked = Buffer.concat([asked, chunk]);
    const parsed = parseRequest(asked);
    if (parsed !== null) {
      request = parsed;
      asked = Buffer.alloc(0);
      answer = "";
    }
    far.write(chunk);
  });
  far.on("data", (chunk: Buffer) => {
    answer += chunk.toString("latin1");
    const status = /^HTTP\/1\.[01] (\d{3})[^\r]*\r\n/.exec(answer)?.[1];
    if (status !== undefined) settle(Number(status));
    near.write(chunk);
  });
  for (const [from, to] of [
    [near, far],
    [far, near],
  ] as const) {
    from.on("end", () => to.end());
    from.on("error", () => to.destroy());
    from.on("close", () => {
      settle(0);
      to.destroy();
    });
  }
}

/** The request, once it is there in full; null before. */
function parseRequest(bytes: Buffer): WireRequest | null {
  const headEnd = bytes.indexOf("\r\n\r\n");
  if (headEnd === -1) return null;
  const [line = "", ...lines] = bytes.toString("latin1", 0, headEnd).split("\r\n");
  const headers = lines.map((each) => {
    const colon = each.indexOf(":");
    return [each.slice(0, colon).toLowerCase(), each.slice(colon + 1).trim()] as const;
  });
  const [method = "", target = ""] = line.split(" ");
  const body = bytes.subarray(headEnd + 4);
  const request = { method, target, headers, body };
  return body.length < Number(headerOf(request, "content-length")) ? null : request;
}
