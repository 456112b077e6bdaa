import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

import { queueMicrotask } from "../../domain/clock/timers.ts";
import { connectionOf, whenAnswered } from "./client-connection.ts";
import { boundFineChunks } from "./fine-chunks.ts";
import { shareTurns, type TurnOptions } from "./loop-turns.ts";

type Exchange = readonly [request: IncomingMessage, response: ServerResponse];

/** The requests that wait behind the one under way on their connection. */
interface Line {
  /** The name by which shares are counted. */
  readonly address: string;
  readonly waiting: Exchange[];
}

// A client that sends ahead sends a few; one read from a connection may bring some more.
const WAITING_MAX = 10;
/** The most requests in line, over all connections of an address and over all addresses: each takes some KiB. */
export const IN_LINE_OF_ADDRESS_MAX = 2_000;
export const IN_LINE_MAX = 10_000;

/**
 * Wraps a listener: it gets the requests of one connection one after the other, each when the one before is answered.
 * Node hands on everything that has arrived: a change could overtake the one before it (RFC 9112 §9.3.2), and one
 * connection could make thousands of requests wait, or have as many large results held for it. From a connection with
 * ten requests in line nothing more is read. A client that has gone gets no more turns, and a client that sends ahead
 * more than all connections of its address may have in line is cut off. One turn of the event loop begins a limited
 * number of requests over all connections (see loop-turns.ts).
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
    // This request was read together with one too many.
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

/** Counts the requests in line, by address and in all. */
class InLine {
  readonly #byAddress = new Map<string, number>();
  #all = 0;

  isFull({ address }: Line): boolean {
    return this.#all >= IN_LINE_MAX || this.#countOf(address) >= IN_LINE_OF_ADDRESS_MAX;
  }

  change({ address }: Line, by: number): void {
    this.#all += by;
    const count = this.#countOf(address) + by;
    if (count === 0) this.#byAddress.delete(address);
    else this.#byAddress.set(address, count);
  }

  #countOf(address: string): number {
    return this.#byAddress.get(address) ?? 0;
  }
}
