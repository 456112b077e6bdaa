import type { Server } from "node:http";

import { systemClock } from "../../domain/clock/clock.ts";
import { setImmediate } from "../../domain/clock/timers.ts";
import { connectionOf, type Socket } from "./client-connection.ts";

/** The most bytes that are dropped after a response. */
const BYTES_MAX = 64 * 1024 ** 2;
const MS_MAX = 30_000;
// Without a byte from the client.
const SILENT_MS_MAX = 5000;
/** The most connections that linger; the oldest one gives way. */
const LINGERING_MAX = 64;

/** The oldest one comes first. */
const lingering = new Set<Socket>();

/**
 * From now on, a client that still sends a body can read the response that ends its connection (RFC 9112 §9.6). Node
 * closes such a connection in both directions, and the kernel resets it at the next byte. A client that writes before
 * it reads, as Python's urllib and fetch do, then reports a broken pipe instead of the response.
 */
export function lingerAfterRefusals(server: Server): void {
  const event = "setSecureContext" in server ? "secureConnection" : "connection";
  server.on(event, (socket: Socket) => {
    const destroySoon = socket.destroySoon.bind(socket);
    // Node calls it when the last response of a connection has been handed to the kernel.
    socket.destroySoon = () => {
      if (connectionOf({ socket })?.isSendingBody !== true) destroySoon();
      else if (!socket.writableEnded) closeLingering(socket);
    };
  });
}

/** Closes the connection for writing, then drops what its client sends: until it closes too, or a bound is reached. */
export function closeLingering(socket: Socket): void {
  // It takes no place from connections with requests.
  connectionOf({ socket })?.leave();
  lingering.add(socket);
  const [oldest = socket] = lingering;
  if (lingering.size > LINGERING_MAX) {
    lingering.delete(oldest);
    oldest.destroy();
  }
  socket.setTimeout(SILENT_MS_MAX, () => socket.destroy());
  const timer = systemClock.setTimer(MS_MAX, () => socket.destroy());
  socket.once("close", () => {
    lingering.delete(socket);
    timer.cancel();
  });
  socket.end();
  // Node's HTTP server itself restarts the reading of a paused socket, by an event, as long as it reads from it.
  if (socket.isPaused()) socket.once("resume", () => dropAll(socket)).resume();
  else dropAll(socket);
}

function dropAll(socket: Socket): void {
  let bytesLeft = BYTES_MAX;
  // Otherwise Node's parser would go on to the next request.
  socket.removeAllListeners("data");
  socket.on("data", ({ length }) => {
    bytesLeft -= length;
    if (bytesLeft < 0) socket.destroy();
    // In turn with everything else: a fast client sends megabytes in one turn of the event loop.
    else setImmediate(() => socket.resume());
    socket.pause();
  });
}
