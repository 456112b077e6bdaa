import type { Server } from "node:http";
import type { Duplex } from "node:stream";

/** How a server is stopped. */
export interface Connections {
  /**
   * Accepts no more connections, closes those without a request under way at once, and the others after their
   * answers; settles when none is left. Handshakes under way end by themselves, or by their timeout.
   */
  close(): Promise<void>;
  /** Breaks off what {@link close} still waits for. */
  abort(): void;
}

/** Follows a server's connections from now on. */
export function followConnections(server: Server): Connections {
  const requestsUnderWay = new Map<Duplex, number>();
  let isClosing = false;

  function changeCount(socket: Duplex, by: number): void {
    const count = requestsUnderWay.get(socket);
    if (count === undefined) return;
    requestsUnderWay.set(socket, count + by);
    closeIfIdle(socket);
  }

  function closeIfIdle(socket: Duplex): void {
    if (!isClosing || requestsUnderWay.get(socket) !== 0) return;
    // Not left half open: a client that never closes it in turn would hold up the end.
    socket.end(() => socket.destroy());
  }

  // For an HTTPS server a connection is the bare TCP connection below TLS, which no request ever names.
  const event = "setSecureContext" in server ? "secureConnection" : "connection";
  server.on(event, (socket: Duplex) => {
    requestsUnderWay.set(socket, 0);
    socket.once("close", () => requestsUnderWay.delete(socket));
    closeIfIdle(socket);
  });
  server.prependListener("request", ({ socket }, response) => {
    changeCount(socket, 1);
    response.once("close", () => changeCount(socket, -1));
  });

  return {
    close: () =>
      new Promise((resolve) => {
        isClosing = true;
        // For Node a connection is idle as soon as its answer is written, however much of it is still to be sent.
        server.closeIdleConnections = () => {};
        server.close(() => resolve());
        for (const socket of requestsUnderWay.keys()) closeIfIdle(socket);
      }),
    abort() {
      for (const socket of requestsUnderWay.keys()) socket.destroy();
    },
  };
}
