import assert from "node:assert/strict";
import { createServer } from "node:net";
import type { Socket } from "node:net";
import type { TestContext } from "node:test";

import { createServiceClient } from "../../src/deliver/service-client.ts";
import type {
  ServiceAnswer,
  ServiceClient,
  ServicePost,
} from "../../src/deliver/service-client.ts";
import { closeServer, listen } from "../helpers/receiver.ts";

/** A client that is closed after the test. */
export function startClient(t: TestContext, options: { socketsMax?: number } = {}): ServiceClient {
  const client = createServiceClient({ socketsMax: options.socketsMax ?? 4 });
  t.after(() => client.close());
  return client;
}

/** A post of `{}` whose response may have 1,000 bytes. */
export function postOf(overrides: Partial<ServicePost> = {}): ServicePost {
  const { signal } = new AbortController();
  return { headers: {}, body: "{}", bytesMax: 1000, signal, ...overrides };
}

/** The response, which must be complete. */
export function answered(answer: ServiceAnswer): Extract<ServiceAnswer, { kind: "answered" }> {
  assert(answer.kind === "answered", `it was ${JSON.stringify(answer)}`);
  return answer;
}

/** Starts a TCP server on 127.0.0.1 that calls `serve` with each connection. Returns its URL. */
export async function startByteServer(
  t: TestContext,
  serve: (socket: Socket, index: number) => void,
): Promise<URL> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    serve(socket, sockets.size);
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
  });
  t.after(async () => {
    for (const socket of sockets) socket.destroy();
    await closeServer(server);
  });
  const port = await listen(server, { host: "127.0.0.1", port: 0 });
  return new URL(`http://127.0.0.1:${port}/`);
}
