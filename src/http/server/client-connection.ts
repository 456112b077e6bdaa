import type { EventEmitter } from "node:events";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

import { addressKey } from "../guard/client-address.ts";
import type { ConnectionPlaces, ConnectionActivity, Occupant } from "./connection-places.ts";

export type Socket = IncomingMessage["socket"];

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly callbacks: (() => void)[];
}

/** A client's connection, from its acceptance to its end. */
export class ClientConnection implements Occupant {
  readonly address: string;
  /** The TCP socket, also where TLS runs over it. */
  readonly socket: Socket;
  /** True for a connection from the reserve for health checks and the operator. */
  isReserve = false;
  /** True while the daemon holds its request until something happens. */
  isWaiting = false;
  /** Gives its place back, before it is closed. */
  readonly leave: () => void;
  readonly #now: () => number;
  /** Nearly always one; a client that sends ahead has a few. */
  readonly #exchanges: Exchange[] = [];
  #latest: IncomingMessage | null = null;
  #since: number;

  constructor(
    socket: Socket,
    { address, places, now }: Omit<FollowOptions, "isProxy"> & { readonly address: string },
  ) {
    this.socket = socket;
    this.address = address;
    this.leave = () => places.leave(this);
    this.#now = now;
    this.#since = now();
  }

  get since(): number {
    return this.#since;
  }

  get activity(): ConnectionActivity {
    const [first] = this.#exchanges;
    if (first === undefined) return this.#latest === null ? "receiving" : "idle";
    if (this.isWaiting) return "waiting";
    const { request, response } = first;
    if (response.headersSent) return "sending";
    return request.complete ? "serving" : "receiving";
  }

  /** True while the body of its latest request arrives, also after the response. */
  get isSendingBody(): boolean {
    return this.#latest?.complete === false;
  }

  begin(request: IncomingMessage, response: ServerResponse): void {
    this.#latest = request;
    if (this.#exchanges.length === 0) this.#since = this.#now();
    this.#exchanges.push({ request, response, callbacks: [] });
  }

  /** Returns the callbacks that wait for this answer. */
  end(response: ServerResponse): readonly (() => void)[] {
    const at = this.#exchanges.findIndex((each) => each.response === response);
    const [ended] = at === -1 ? [] : this.#exchanges.splice(at, 1);
    this.#since = this.#now();
    this.isWaiting = false;
    return ended?.callbacks ?? [];
  }

  /** Calls back when this answer has gone, or the client has; false where that is so already. */
  whenAnswered(response: EventEmitter, callback: () => void): boolean {
    const exchange = this.#exchanges.find((each) => each.response === response);
    exchange?.callbacks.push(callback);
    return exchange !== undefined;
  }

  /** An idle client may still read the bytes that were sent; of any other the kernel is to keep nothing. */
  close(): void {
    if (this.activity === "idle") this.socket.destroy();
    else this.cutOff();
  }

  /** Closes it, and drops what the kernel holds for it. */
  cutOff(): void {
    this.socket.resetAndDestroy();
  }
}

// By the socket that a request names, which is a TLS socket where there is TLS.
const connections = new WeakMap<Duplex, ClientConnection>();

/** The connection that a request came over; null where nobody follows it. */
export function connectionOf({ socket }: Pick<IncomingMessage, "socket">): ClientConnection | null {
  return connections.get(socket) ?? null;
}

/**
 * Calls back once when an answer has gone, or its client has. One listener per connection serves everybody who asks:
 * a listener each would cost every request more than it is worth.
 */
export function whenAnswered(
  request: IncomingMessage,
  response: EventEmitter,
  callback: () => void,
): void {
  const connection = connectionOf(request);
  if (connection?.whenAnswered(response, callback) !== true) response.once("close", callback);
}

export interface FollowOptions {
  readonly places: ConnectionPlaces<ClientConnection>;
  /** Whether a peer is a proxy for many clients: then it has no share, and each connection stands for itself. */
  readonly isProxy: (address: string) => boolean;
  readonly now: () => number;
}

/** From now on, gives each connection of a server a place; a connection without a place is closed. */
export function placeConnections(server: Server, options: FollowOptions): void {
  const byPeer = new Map<string, ClientConnection>();
  let proxied = 0;

  function accept(socket: Socket): void {
    const peer = socket.remoteAddress ?? "";
    const isProxy = options.isProxy(peer);
    if (isProxy) proxied += 1;
    const address = isProxy ? `proxy ${proxied}` : addressKey(peer);
    const connection = new ClientConnection(socket, { ...options, address });
    const admittance = options.places.enter(connection);
    if (admittance === "none") {
      socket.resetAndDestroy();
      return;
    }
    connection.isReserve = admittance === "reserve";
    connections.set(socket, connection);
    const key = peerKey(socket);
    byPeer.set(key, connection);
    socket.once("close", () => {
      connection.leave();
      byPeer.delete(key);
    });
  }

  // Before Node reads from it.
  server.prependListener("connection", accept);
  server.on("secureConnection", (socket: Socket) => {
    // The TLS socket does not name the one below it, but has the same ends.
    const connection = byPeer.get(peerKey(socket));
    if (connection !== undefined) connections.set(socket, connection);
  });
  server.prependListener("request", (request: IncomingMessage, response: ServerResponse) => {
    const connection = connectionOf(request);
    if (connection === null) return;
    connection.begin(request, response);
    response.once("close", () => {
      const callbacks = connection.end(response);
      // This comes before the next request that it sent ahead begins: it is idle now, or goes to the end of its
      // address's line.
      options.places.changed(connection);
      for (const callback of callbacks) callback();
    });
  });
}

function peerKey({ remoteAddress, remotePort, localAddress }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`;
}
