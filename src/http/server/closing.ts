import type { Server, ServerResponse } from "node:http";

import { systemClock } from "../../domain/clock/clock.ts";
import { setImmediate } from "../../domain/clock/timers.ts";
import { IdGenerator } from "../../domain/id.ts";
import { type ResponseHeaders, StatusError } from "../../domain/status.ts";
import { type Sending, sendingOf } from "../../node-internals.ts";
import {
  type ClientConnection,
  type FollowOptions,
  type Socket,
  connectionOf,
} from "../admission/connections.ts";
import {
  BYTES_PER_SECOND_MIN,
  LINGER_BYTES_MAX,
  LINGER_MS_MAX,
  LINGER_SILENT_MS_MAX,
  LINGERING_MAX,
} from "../admission/limits.ts";
import { toRawResponse } from "../respond.ts";

export interface Connections {
  /**
   * Accepts no more connections. Connections without a request in progress are closed immediately, the others after
   * their responses. Handshakes under way end by themselves, or by their timeout.
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

  onConnection(server, (socket) => {
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

// The `connection` event of an HTTPS server has the TCP connection below TLS, which no request ever names.
function onConnection(server: Server, listener: (socket: Socket) => void): void {
  server.on("setSecureContext" in server ? "secureConnection" : "connection", listener);
}

/** The oldest one comes first. */
const lingering = new Set<Socket>();

/**
 * From now on, a client that still sends a body can read the response that ends its connection (RFC 9112 §9.6). Node
 * closes such a connection in both directions, and the kernel resets it at the next byte. A client that writes before
 * it reads, as Python's urllib and fetch do, then reports a broken pipe instead of the response.
 */
export function lingerAfterRefusals(server: Server): void {
  onConnection(server, (socket) => {
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
  socket.setTimeout(LINGER_SILENT_MS_MAX, () => socket.destroy());
  const timer = systemClock.setTimer(LINGER_MS_MAX, () => socket.destroy());
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
  let bytesLeft = LINGER_BYTES_MAX;
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

/**
 * Responds in the contract's shape also to bytes that never became a request, and closes their connection. Responses to
 * earlier requests go first: a client would take this response for theirs.
 */
export function refuseGarbage(server: Server, headers: ResponseHeaders): void {
  const answerGarbage = (error: NodeJS.ErrnoException, socket: Socket): void => {
    if (error.code === "ECONNRESET" || !socket.writable) {
      socket.destroy();
      return;
    }
    const detail = GARBAGE[error.code ?? ""] ?? NO_REQUEST;
    const reply = { requestId: ids.next(systemClock.now()), headers };
    socket.write(toRawResponse(new StatusError(40000, { detail }), reply));
    closeLingering(socket);
  };
  const lastAnswers = new WeakMap<Socket, ServerResponse>();
  server.prependListener("request", ({ socket }, response) => lastAnswers.set(socket, response));
  server.on("clientError", (error, socket: Socket) => {
    const last = lastAnswers.get(socket);
    if (last?.req.complete && !last.writableFinished) {
      last.once("close", () => answerGarbage(error, socket));
    } else if (last?.req.complete === false && last.socket === null) {
      // The last request itself is broken; its response was sent, or waits behind an earlier one.
      socket.destroy();
    } else answerGarbage(error, socket);
  });
}

const ids = new IdGenerator();

const NO_REQUEST = "This is not a valid HTTP/1.1 request.";
const GARBAGE: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: "The request's headers are too large.",
  ERR_HTTP_REQUEST_TIMEOUT: "The request took too long to arrive.",
};

// Twice a second, so that a client is cut off within a second of its time.
const LOOK_INTERVAL_MS = 500;
const LOOKS_PER_TIMEOUT_MIN = 4;

interface Look {
  taken: number;
  /** When the kernel was first seen to have taken something new. */
  movedAt: number;
  /** The beginning of the time for which the least pace is asked. */
  readonly from: { at: number; taken: number };
}

/**
 * Finds the clients that do not read their answers: for the length of the send timeout nothing moves, or less than
 * {@link BYTES_PER_SECOND_MIN}. To be asked about each client again and again.
 */
export class SendPace<Client extends object> {
  readonly #timeoutMs: number;
  readonly #looks = new WeakMap<Client, Look>();

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  isTooSlow(client: Client, { taken, unsent }: Sending, now: number): boolean {
    const look = this.#looks.get(client);
    if (unsent === 0) {
      if (look !== undefined) this.#looks.delete(client);
      return false;
    }
    if (look === undefined) {
      this.#looks.set(client, { taken, movedAt: now, from: { at: now, taken } });
      return false;
    }
    if (taken !== look.taken) Object.assign(look, { taken, movedAt: now });
    if (now - look.movedAt >= this.#timeoutMs) return true;
    const { from } = look;
    if (now - from.at < this.#timeoutMs) return false;
    const wanted = ((now - from.at) / 1000) * BYTES_PER_SECOND_MIN;
    if (taken - from.taken < wanted) return true;
    Object.assign(from, { at: now, taken });
    return false;
  }
}

/**
 * From now on, cuts off the clients of a server that are too slow. It uses the machine's clock, as the network does; no
 * timer runs without a connection.
 */
export function cutOffSlow(
  server: Server,
  { places, sendTimeoutMs }: Pick<FollowOptions, "places"> & { sendTimeoutMs: number },
): void {
  const pace = new SendPace<ClientConnection>(sendTimeoutMs);
  const intervalMs = Math.min(LOOK_INTERVAL_MS, sendTimeoutMs / LOOKS_PER_TIMEOUT_MIN);
  let isWatching = false;

  function look(): void {
    const now = systemClock.monotonic();
    for (const connection of [...places.all()]) {
      if (pace.isTooSlow(connection, sendingOf(connection.socket), now)) connection.cutOff();
    }
    isWatching = places.size > 0;
    if (isWatching) systemClock.setTimer(intervalMs, look);
  }

  server.on("connection", () => {
    if (isWatching) return;
    isWatching = true;
    systemClock.setTimer(intervalMs, look);
  });
}
