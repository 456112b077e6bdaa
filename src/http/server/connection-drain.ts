import type { Server } from "node:http";

import type { Socket } from "./client-connection.ts";

export interface Connections {
  /**
   * No connection is accepted any more, those without a request under way are closed at once, the others after
   * their answers. Handshakes under way end by themselves, or by their timeout.
   */
  drain(): void;
  /** Settles when no connection is left after a {@link drain}. */
  quiet(): Promise<void>;
  /** Drains, and breaks off the requests under way. */
  abort(): void;
}

export function followConnections(server: Server): Connections {
  const requestsUnderWay = new Map<Socket, number>();
  let isDraining = false;

  function changeCount(socket: Socket, by: number): void {
    const count = requestsUnderWay.get(socket);
    if (count === undefined) return;
    requestsUnderWay.set(socket, count + by);
    closeIfIdle(socket);
  }

  function closeIfIdle(socket: Socket): void {
    if (!isDraining || requestsUnderWay.get(socket) !== 0) return;
    // Not left half open: a client that never closes it in turn would hold up the end.
    socket.destroySoon();
  }

  // For an HTTPS server a connection is the bare TCP connection below TLS, which no request ever names.
  const event = "setSecureContext" in server ? "secureConnection" : "connection";
  server.on(event, (socket: Socket) => {
    requestsUnderWay.set(socket, 0);
    socket.once("close", () => requestsUnderWay.delete(socket));
    closeIfIdle(socket);
  });
  server.prependListener("request", ({ socket }, response) => {
    changeCount(socket, 1);
    response.once("close", () => changeCount(socket, -1));
  });

  const { promise: closed, resolve } = Promise.withResolvers<void>();
  server.once("close", () => resolve());

  function drain(): void {
    if (isDraining) return;
    isDraining = true;
    // To Node a connection is idle as soon as its answer is written, however much is still to be sent.
    server.closeIdleConnections = () => {};
    server.close();
    for (const [socket, count] of requestsUnderWay) {
      // Its last response has gone: a stop does not wait until its client has read it.
      if (count === 0 && socket.writableEnded) socket.destroy();
      else closeIfIdle(socket);
    }
  }

  return {
    drain,
    quiet: () => closed,
    abort() {
      drain();
      for (const socket of requestsUnderWay.keys()) socket.destroy();
    },
  };
}
