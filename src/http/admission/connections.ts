import type { EventEmitter } from "node:events";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

import type { Clock } from "../../domain/clock/clock.ts";
import { MINUTE_MS } from "../../domain/clock/duration.ts";
import type { Logger } from "../../domain/log.ts";
import { addressKey } from "../guard/client.ts";
import { SHARE_OF_ADDRESS, ADDRESS_PLACES_MIN, RESERVE_PLACES, SLOW_FROM_MS } from "./limits.ts";

/** The most connections of one address, of so many in all. */
export function placesOfAddress(connections: number): number {
  return Math.max(ADDRESS_PLACES_MIN, Math.floor(connections * SHARE_OF_ADDRESS));
}

/** Counts by key and in all. A key whose count is 0 takes no memory. */
export class Counts {
  readonly #byKey = new Map<string, number>();
  #all = 0;

  get all(): number {
    return this.#all;
  }

  of(key: string): number {
    return this.#byKey.get(key) ?? 0;
  }

  add(key: string, by: number): void {
    const count = this.of(key) + by;
    if (count === 0) this.#byKey.delete(key);
    else this.#byKey.set(key, count);
    this.#all += by;
  }
}

/** The present activity of a connection. The daemon decides how long `serving` and `waiting` take, not the client. */
export type ConnectionActivity = "receiving" | "serving" | "waiting" | "sending" | "idle";

export interface Occupant {
  /** The name by which shares are counted. */
  readonly address: string;
  readonly activity: ConnectionActivity;
  /** When it began the request under way, or ended the last one; by a clock that never steps. */
  readonly since: number;
  /** Closes it and breaks off what it has under way. */
  close(): void;
}

interface PlaceLimits {
  /** The most concurrent connections; {@link RESERVE_PLACES} come on top. */
  readonly connections: number;
  /** By the clock of {@link Occupant.since}. */
  readonly now: () => number;
  /** Called with the fate of each newcomer that found no place. */
  readonly onShortage?: (what: ShortageOutcome) => void;
}

/**
 * Decides who may have a connection when there is room for fewer. The longest idle one of the address with the most is
 * closed for a new one. If none is idle, that address loses the connection with the longest transfer in progress,
 * unless the new connection's address has as many. Beyond that there is only the reserve.
 */
export class ConnectionPlaces<One extends Occupant = Occupant> {
  readonly ofAddressMax: number;
  readonly #limits: PlaceLimits;
  /** The connections of each address, the one with the oldest state first. */
  readonly #byAddress = new Map<string, Set<One>>();
  /** The addresses that may have an idle connection: without one, a new connection causes no search. */
  readonly #withIdle = new WeakSet<Set<One>>();
  readonly #reserve = new Set<One>();
  #count = 0;

  constructor(limits: PlaceLimits) {
    this.#limits = limits;
    this.ofAddressMax = placesOfAddress(limits.connections);
  }

  /** The reserve included. */
  get size(): number {
    return this.#count + this.#reserve.size;
  }

  *all(): Iterable<One> {
    for (const places of this.#byAddress.values()) yield* places;
    yield* this.#reserve;
  }

  /** Gives a new connection a place. If necessary, another connection is closed for it. */
  enter(newcomer: One): "place" | "reserve" | "none" {
    const { address } = newcomer;
    if (this.#makeRoom(address)) {
      const own = this.#byAddress.get(address) ?? new Set();
      this.#byAddress.set(address, own.add(newcomer));
      if (newcomer.activity === "idle") this.#withIdle.add(own);
      this.#count += 1;
      return "place";
    }
    if (this.#reserve.size >= RESERVE_PLACES && !this.#clearReserve()) {
      this.#limits.onShortage?.("refused");
      return "none";
    }
    this.#limits.onShortage?.("over_reserve");
    this.#reserve.add(newcomer);
    return "reserve";
  }

  /** Its state has changed; to be called at least when it is idle. It goes behind the others of its address. */
  changed(occupant: One): void {
    const own = this.#byAddress.get(occupant.address);
    if (own?.delete(occupant) !== true) return;
    own.add(occupant);
    if (occupant.activity === "idle") this.#withIdle.add(own);
  }

  leave(occupant: One): void {
    if (this.#reserve.delete(occupant)) return;
    const own = this.#byAddress.get(occupant.address);
    if (own?.delete(occupant) !== true) return;
    this.#count -= 1;
    if (own.size === 0) this.#byAddress.delete(occupant.address);
  }

  #makeRoom(address: string): boolean {
    const own = this.#byAddress.get(address);
    const hasShare = own !== undefined && own.size >= this.ofAddressMax;
    if (!hasShare && this.#count < this.#limits.connections) return true;
    const isMade = this.#evict(
      hasShare ? (this.#oldestIdle(own) ?? this.#slowest(own)) : this.#leastUsed(own),
    );
    if (isMade) this.#limits.onShortage?.("closed_others");
    return isMade;
  }

  /** The connection that gives way to one more of an address, among all there are. */
  #leastUsed(own: Set<One> | undefined): One | null {
    const ownSize = own?.size ?? 0;
    return (
      this.#ofLargest((places) => this.#oldestIdle(places)) ??
      this.#ofLargest((places) =>
        places.size > ownSize || places === own ? this.#slowest(places) : null,
      )
    );
  }

  /** The connection found at the largest address at which any is found. */
  #ofLargest(find: (places: Set<One>) => One | null): One | null {
    let found: One | null = null;
    let most = 0;
    for (const places of this.#byAddress.values()) {
      if (places.size <= most) continue;
      const one = find(places);
      if (one === null) continue;
      found = one;
      most = places.size;
    }
    return found;
  }

  #oldestIdle(places: Set<One>): One | null {
    if (!this.#withIdle.has(places)) return null;
    for (const each of places) if (each.activity === "idle") return each;
    this.#withIdle.delete(places);
    return null;
  }

  #slowest(places: Set<One>): One | null {
    const before = this.#limits.now() - SLOW_FROM_MS;
    for (const each of places) {
      if (each.since > before) return null;
      if (each.activity === "receiving" || each.activity === "sending") return each;
    }
    return null;
  }

  // A request that arrives immediately gets its response before the next one; other connections do not use the reserve.
  #clearReserve(): boolean {
    for (const each of this.#reserve) {
      if (each.activity !== "serving" && each.activity !== "waiting") return this.#evict(each);
    }
    return false;
  }

  #evict(occupant: One | null): boolean {
    if (occupant === null) return false;
    this.leave(occupant);
    occupant.close();
    return true;
  }
}

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
  since: number;

  constructor(socket: Socket, address: string, { places, now }: FollowOptions) {
    this.socket = socket;
    this.address = address;
    this.leave = () => places.leave(this);
    this.#now = now;
    this.since = now();
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
    if (this.#exchanges.length === 0) this.since = this.#now();
    this.#exchanges.push({ request, response, callbacks: [] });
  }

  /** Returns the callbacks that wait for this answer. */
  end(response: ServerResponse): readonly (() => void)[] {
    const at = this.#exchanges.findIndex((each) => each.response === response);
    const [ended] = at === -1 ? [] : this.#exchanges.splice(at, 1);
    this.since = this.#now();
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

  /** Drops what the kernel holds for it, too. */
  cutOff(): void {
    this.socket.resetAndDestroy();
  }
}

// By the socket that a request names, which is a TLS socket where there is TLS.
const connections = new WeakMap<Duplex, ClientConnection>();

/** Returns null if the server does not count its connections. */
export function connectionOf({ socket }: Pick<IncomingMessage, "socket">): ClientConnection | null {
  return connections.get(socket) ?? null;
}

/**
 * Calls back once when an answer has gone, or its client has. One listener per connection serves all callers: a
 * listener each would be too expensive per request.
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
    const connection = new ClientConnection(socket, address, options);
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

/** The fate of a connection that found no place: another one was closed for it, it got a reserve place, or it was refused. */
export type ShortageOutcome = "closed_others" | "over_reserve" | "refused";

const NOTHING = { closed_others: 0, over_reserve: 0, refused: 0 };

/** Logs that places for connections run out: the first time immediately, then once a minute at most, with counts. */
export class PlaceShortage {
  readonly #deps: { readonly clock: Clock; readonly log: Logger };
  /** Counts since the last line. */
  #counts = { ...NOTHING };
  #nextAt = Number.NEGATIVE_INFINITY;

  constructor(deps: { readonly clock: Clock; readonly log: Logger }) {
    this.#deps = deps;
  }

  note(what: ShortageOutcome): void {
    const { clock, log } = this.#deps;
    this.#counts[what]++;
    const now = clock.monotonic();
    if (now < this.#nextAt) return;
    this.#nextAt = now + MINUTE_MS;
    log.warn(this.#counts, "there were more connections than places (limits.connections)");
    this.#counts = { ...NOTHING };
  }
}
