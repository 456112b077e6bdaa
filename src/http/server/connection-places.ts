import type { ShortageOutcome } from "./place-shortage.ts";

/** Places beyond the limit that only health checks and the operator get. */
export const RESERVE_PLACES = 16;

// One address gets a quarter of the places, but never so few that one client could not work. For unread answers the
// kernel holds up to some 650 KiB per connection, whatever this process does.
const SHARE_OF_ADDRESS = 1 / 4;
const ADDRESS_PLACES_MIN = 256;
// A request that has been arriving, or an answer that has been going out, for so long may lose its place to another
// one.
const SLOW_FROM_MS = 1000;

/** The most connections of one address, of so many in all. */
export function placesOfAddress(connections: number): number {
  return Math.max(ADDRESS_PLACES_MIN, Math.floor(connections * SHARE_OF_ADDRESS));
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

export interface PlaceLimits {
  /** The most at once; {@link RESERVE_PLACES} come on top. */
  readonly connections: number;
  /** By the clock of {@link Occupant.since}. */
  readonly now: () => number;
  /** Called with the fate of each newcomer that found no place. */
  readonly onShortage?: (what: ShortageOutcome) => void;
}

export type Admittance = "place" | "reserve" | "none";

/**
 * Decides who may have a connection when there is room for fewer. The longest idle one of the address with the most
 * is closed for a new one. Where none is idle, that address loses the one that has been receiving or being sent to
 * for longest, unless the new one's address has as many. Beyond that there is only the reserve.
 */
export class ConnectionPlaces<One extends Occupant = Occupant> {
  readonly ofAddressMax: number;
  readonly #limits: PlaceLimits;
  /** The connections of each address, the one with the oldest state first. */
  readonly #byAddress = new Map<string, Set<One>>();
  /** The addresses that may have an idle connection: where there is none, a newcomer causes no search. */
  readonly #withIdle = new WeakSet<Set<One>>();
  readonly #reserve = new Set<One>();
  #count = 0;

  constructor(limits: PlaceLimits) {
    this.#limits = limits;
    this.ofAddressMax = placesOfAddress(limits.connections);
  }

  /** How many have a place, also in the reserve. */
  get size(): number {
    return this.#count + this.#reserve.size;
  }

  /** Whether places have run out, so that somebody must go for the next one. */
  get isFull(): boolean {
    return this.#count >= this.#limits.connections;
  }

  *all(): Iterable<One> {
    for (const places of this.#byAddress.values()) yield* places;
    yield* this.#reserve;
  }

  /** Gives a new connection a place, if need be that of another one, which is closed. */
  enter(newcomer: One): Admittance {
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
    if (!hasShare && !this.isFull) return true;
    const isMade = this.#evict(
      hasShare ? (this.#oldestIdle(own) ?? this.#slowest(own)) : this.#leastUsed(own),
    );
    if (isMade) this.#limits.onShortage?.("closed_others");
    return isMade;
  }

  /** The connection that gives way to one more of an address, among all there are. */
  #leastUsed(own: Set<One> | undefined): One | null {
    const ownSize = own?.size ?? 0;
    const isGiving = (others: Set<One>): boolean => others.size > ownSize || others === own;
    return (
      this.#ofLargest(
        (places) => this.#oldestIdle(places),
        () => true,
      ) ?? this.#ofLargest((places) => this.#slowest(places), isGiving)
    );
  }

  /** The one found at the largest address that has any to find. */
  #ofLargest(
    find: (places: Set<One>) => One | null,
    isMeant: (places: Set<One>) => boolean,
  ): One | null {
    let found: One | null = null;
    let most = 0;
    for (const places of this.#byAddress.values()) {
      if (places.size <= most || !isMeant(places)) continue;
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

  // A request that comes at once is answered before the next one; the other connections have no business in the
  // reserve.
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
