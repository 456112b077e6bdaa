import type { IncomingMessage } from "node:http";

import { FINE_CHUNKS_MAX, boundChunks } from "../../domain/json/chunks.ts";
import { dropRest } from "../../node-internals.ts";
import { addressKey } from "../guard/client.ts";
import { connectionOf } from "./connections.ts";

const tooFine = new WeakSet<IncomingMessage>();

/** True when a body came in too many small chunks at once and its rest is missing. */
export function isTooFine(request: IncomingMessage): boolean {
  return tooFine.has(request);
}

/**
 * Takes as much of a body in small chunks as a turn of the event loop has room for. Of a body with more nothing
 * further is handed on, and its reader has to ask {@link isTooFine}. Cuts off a client whose body comes in many
 * chunks while nobody reads it: Node keeps 64 KiB of a body, which are 65,536 buffers where each chunk is one byte.
 */
export function boundFineChunks(request: IncomingMessage): void {
  if (request.headers["transfer-encoding"] === undefined) return;
  const { socket } = request;
  const sender = connectionOf(request)?.address ?? addressKey(socket.remoteAddress ?? "");
  const push = request.push.bind(request);
  let unread = 0;
  request.push = (chunk: Buffer | null) => {
    unread = request.readableLength === 0 ? 0 : unread + 1;
    // The end, which is no chunk, lets its reader answer: it has all that is kept.
    if (chunk === null || unread <= FINE_CHUNKS_MAX) return push(chunk);
    socket.destroy();
    return false;
  };
  const onTooMany = (): void => {
    dropRest(socket);
    tooFine.add(request);
  };
  boundChunks(request, { sender, onTooMany });
}
