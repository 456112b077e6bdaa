import { createServer } from "node:net";
import type { Socket } from "node:net";
import type { TestContext } from "node:test";

import { closeServer, listen, toLoopback } from "./receiver.ts";

/** A listener that should never be reached. */
export interface Trap {
  readonly host: string;
  readonly port: number;
  /** Connections accepted so far. */
  readonly connections: number;
  /** Resolves when the first bytes have come, for tests of what is accepted and never answered. */
  readonly written: Promise<void>;
  /** Resolves when a connection is closed by the other side: what it held is freed. */
  readonly released: Promise<void>;
}

/** Listens on a loopback address, counts connections and answers none. It is closed after the test. */
export async function startTrap(
  t: TestContext,
  options: { readonly host?: string; readonly port?: number } = {},
): Promise<Trap> {
  const host = toLoopback(options.host);
  const sockets = new Set<Socket>();
  const written = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    sockets.add(socket);
    // The other side breaks off when its time is up; that is its own to explain.
    socket.on("error", () => socket.destroy());
    socket.once("data", () => written.resolve());
    socket.once("close", () => released.resolve());
  });
  t.after(async () => {
    for (const socket of sockets) socket.destroy();
    await closeServer(server);
  });
  const port = await listen(server, { host, port: options.port ?? 0 });
  return {
    host,
    port,
    written: written.promise,
    released: released.promise,
    get connections() {
      return connections;
    },
  };
}
