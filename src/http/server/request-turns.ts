import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

import { connectionOf, whenAnswered } from "./client-connection.ts";
import { boundFineChunks } from "./fine-chunks.ts";
import { shareTurns, type TurnOptions } from "./loop-turns.ts";

type Exchange = readonly [request: IncomingMessage, response: ServerResponse];

/** What waits behind the request of a connection that is being served. */
interface Line {
  /** What shares are counted by. */
  readonly address: string;
  readonly waiting: Exchange[];
}

// A client that sends ahead sends a few; what is read from a connection at once may bring some more.
const WAITING_MAX = 10;
/** Most requests in line, over all connections of an address and over all: each takes some KiB. */
export const IN_LINE_OF_ADDRESS_MAX = 2_000;
export const IN_LINE_MAX = 10_000;

/**
 * The listener, given the requests of one connection one after the other, each when the one before is
 * answered. Node hands on whatever has arrived: a change could overtake the one before it (RFC 9112 §9.3.2),
 * and one connection could make thousands of requests wait, or as many large results be held for it. From a
 * connection with ten requests in line nothing more is read. A client that has gone has no more turns,
 * and one that sends ahead more than all connections of his address may have in line is cut off. Of all connections
 * together so many are begun in one turn of the event loop (see loop-turns.ts).
 */
export function takeTurns(listener: RequestListener, options: TurnOptions): RequestListener {
  const begun = shareTurns(listener, options);
  const lines = new WeakMap<Duplex, Line>();
  const inLine = new InLine();

  function begin(socket: Duplex, [request, response]: Exchange): void {
    whenAnswered(request, response, () => endTurn(socket));
    begun(request, response);
  }

  function endTurn(socket: Duplex): void {
    const line = lines.get(socket);
    if (line === undefined) return;
    const next = socket.destroyed ? undefined : line.waiting.shift();
    const left = next === undefined ? line.waiting.length : 1;
    if (left > 0) inLine.change(line, -left);
    if (next === undefined) lines.delete(socket);
    if (line.waiting.length === 0 && socket.isPaused()) socket.resume();
    if (next !== undefined) begin(socket, next);
  }

  return (request, response) => {
    const { socket } = request;
    // What was read together with a request too many.
    if (socket.destroyed) return;
    boundFineChunks(request);
    const line = lines.get(socket);
    if (line === undefined) {
      lines.set(socket, { address: connectionOf(request)?.address ?? "", waiting: [] });
      begin(socket, [request, response]);
      return;
    }
    if (inLine.isFull(line)) {
      socket.destroy();
      return;
    }
    inLine.change(line, 1);
    line.waiting.push([request, response]);
    // Not now: Node resumes it at the end of this very request.
    if (line.waiting.length >= WAITING_MAX) {
      queueMicrotask(() => line.waiting.length > 0 && socket.pause());
    }
  };
}

/** How many requests are in line, by address and in all. */
class InLine {
  readonly #byAddress = new Map<string, number>();
  #all = 0;

  isFull({ address }: Line): boolean {
    return this.#all >= IN_LINE_MAX || this.#of(address) >= IN_LINE_OF_ADDRESS_MAX;
  }

  change({ address }: Line, by: number): void {
    this.#all += by;
    const count = this.#of(address) + by;
    if (count === 0) this.#byAddress.delete(address);
    else this.#byAddress.set(address, count);
  }

  #of(address: string): number {
    return this.#byAddress.get(address) ?? 0;
  }
}
