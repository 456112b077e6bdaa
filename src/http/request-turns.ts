import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

type Exchange = readonly [request: IncomingMessage, response: ServerResponse];

// A client that sends ahead sends a few; what is read from a connection at once may bring some more.
const WAITING_MAX = 10;

/**
 * The listener, given the requests of one connection one after the other, each when the one before is
 * answered. Node hands on whatever has arrived: a change could overtake the one before it (RFC 9112 §9.3.2),
 * and one connection could make thousands of requests wait, or as many large results be held for it. From a
 * connection with ten requests in line nothing more is read. A client that has gone has no more turns.
 *
 * An answer of which its client reads nothing for the server's `timeout` ends its connection; one that
 * is only waited for does not.
 */
export function takeTurns(listener: RequestListener): RequestListener {
  const lines = new WeakMap<Duplex, Exchange[]>();

  function begin(socket: Duplex, [request, response]: Exchange): void {
    response.once("close", () => endTurn(socket));
    // Without a listener Node ends the connection, however long the answer was to take.
    response.on("timeout", () => {
      if (socket.writableLength > 0) socket.destroy();
    });
    listener(request, response);
  }

  function endTurn(socket: Duplex): void {
    const line = lines.get(socket);
    const next = socket.destroyed ? undefined : line?.shift();
    if (next === undefined) lines.delete(socket);
    if (line?.length === 0 && socket.isPaused()) socket.resume();
    if (next !== undefined) begin(socket, next);
  }

  return (request, response) => {
    const { socket } = request;
    const line = lines.get(socket);
    if (line === undefined) {
      lines.set(socket, []);
      begin(socket, [request, response]);
      return;
    }
    line.push([request, response]);
    // Not now: Node resumes it at the end of this very request.
    if (line.length >= WAITING_MAX) queueMicrotask(() => line.length > 0 && socket.pause());
  };
}
