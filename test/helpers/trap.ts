import { createServer } from "node:net";
import type { Socket } from "node:net";
import type { TestContext } from "node:test";

import { closeServer, listen, startReceiver, toLoopback, type Receiver } from "./receiver.ts";

/** A listener that must not be reached. */
export interface Trap {
  readonly host: string;
  readonly port: number;
  /** Connections accepted so far. */
  readonly connections: number;
  /** Resolves at the first bytes. */
  readonly written: Promise<void>;
  /** Resolves when the client closes a connection. */
  readonly released: Promise<void>;
}

/** Listens on a loopback address and counts connections without responses. It is closed after the test. */
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
    // The client resets after its time-out.
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

const TRIES_MAX = 20;

/** A receiver, and traps at the same port of other addresses. A port in use makes all move to another. */
export async function startAmongTraps(
  t: TestContext,
  { host, traps: hosts }: { readonly host?: string; readonly traps: readonly string[] },
): Promise<{ readonly receiver: Receiver; readonly traps: readonly Trap[] }> {
  for (let tries = 1; ; tries++) {
    const receiver = await startReceiver(t, host === undefined ? {} : { host });
    const { port } = receiver;
    try {
      return {
        receiver,
        traps: await Promise.all(hosts.map((each) => startTrap(t, { host: each, port }))),
      };
    } catch (error) {
      const isTaken = error instanceof Error && "code" in error && error.code === "EADDRINUSE";
      if (!isTaken || tries === TRIES_MAX) throw error;
    }
  }
}
