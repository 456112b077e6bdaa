import { shareOfHost, type NodeView } from "../domain/webhook/delivery.ts";

/** How many attempts may be under way, at all nodes together. */
export interface LaneLimits {
  readonly inFlightMax: number;
  readonly inFlightPerHostMax: number;
}

/** How many attempts to a host this node may have under way: of all lanes, and of one that is not proven. */
export interface HostPlaces {
  readonly all: number;
  readonly unproven: number;
}

// The most places of a lane whose host has not answered yet, or not in time. So a dead host holds 4 connections open
// for 10 s, not 32.
const UNPROVEN_IN_FLIGHT_MAX = 4;

/** This node's share of a host's places. Where it has any, a lane that is not proven has one, or it would never be. */
export function placesAt(host: string, max: number, view: NodeView): HostPlaces {
  const all = shareOfHost(max, host, view);
  const unproven = shareOfHost(Math.min(max, UNPROVEN_IN_FLIGHT_MAX), host, view);
  return { all, unproven: Math.min(all, Math.max(1, unproven)) };
}

/** First attempts, or attempts after a failure: retries give way to first attempts. */
export type AttemptClass = "fresh" | "retries";

export const ATTEMPT_CLASSES: readonly AttemptClass[] = ["fresh", "retries"];

/** The standing of a lane, which decides the places that it may have. */
export interface LaneStanding {
  /** True when nothing of it is in flight. */
  readonly isIdle: boolean;
  /** True when its host has answered its account, or failed quickly, the last time. */
  readonly isProven: boolean;
}

/** The load of attempts in flight: places by class, and memory for their bodies. */
export interface Load {
  readonly fresh: number;
  readonly retries: number;
  readonly bytes: number;
}

/** The places that are held, in total and by lanes that are not proven: those of one account, or of all. */
export class Holding {
  fresh = 0;
  retries = 0;
  bytes = 0;
  readonly unproven = { fresh: 0, retries: 0, bytes: 0 };

  /** Takes places, or gives them back with numbers below zero. */
  add(load: Load, { isProven }: Pick<LaneStanding, "isProven">): void {
    this.fresh += load.fresh;
    this.retries += load.retries;
    this.bytes += load.bytes;
    if (!isProven) this.addUnproven(load);
  }

  /** Counts load that is already held as that of an unproven lane; negative numbers end that. */
  addUnproven({ fresh, retries, bytes }: Load): void {
    this.unproven.fresh += fresh;
    this.unproven.retries += retries;
    this.unproven.bytes += bytes;
  }

  /** The places that count towards an account's share. */
  placesOf(of: AttemptClass, { isProven }: Pick<LaneStanding, "isProven">): number {
    return isProven ? this[of] : this.unproven[of];
  }
}

// The last quarter of the places is kept for lanes with nothing in flight, one each: many hosts that hang together must
// not keep a healthy one from being served.
const SHARED_PART = 3 / 4;
// Retries have a quarter at most, and first attempts leave them an eighth: a storm of retries does not hold up tasks
// that have just finished, nor does a flood of fresh attempts hold up the retries.
const RETRIES_PART = 1 / 4;
const RETRIES_KEPT_PART = 1 / 8;
// The rest of the retries' quarter is for hosts that answer: without it a thousand hosts that hang, each with retries
// due, hold up the single retry of another by minutes (simulated: 5 of them).
const UNPROVEN_RETRIES_PART = 3 / 16;
// All hosts that have not answered share half of the places. With one place for each idle lane they have an eighth
// more, and with the retries' own eighth never the last quarter: a thousand dead hosts leave that to hosts that answer.
const UNPROVEN_PART = 1 / 2;
const UNPROVEN_IDLE_PART = 5 / 8;

// An account may hold so many times what it leaves: an attempt that hangs holds its place for 10 s, and another account
// that comes meanwhile must find one. Where hosts answer, an account that is alone leaves an eighth, and where they do
// not, a quarter. It keeps what it needs to be as fast as if nothing were left, and a second account finds 4 places at
// a host at once.
const PROVEN_TIMES = 7;
const UNPROVEN_TIMES = 3;

// The bytes of bodies that are held for sending; more are claimed when these have been sent. Large results must not
// fill the memory.
const BYTES_MAX = 64 * 1024 * 1024;
const UNPROVEN_BYTES_MAX = BYTES_MAX / 2;
// For one account. One claim brings it 8 MiB, and one host may hold as much.
const ACCOUNT_BYTES_MAX = BYTES_MAX / 2;
const ACCOUNT_UNPROVEN_BYTES_MAX = UNPROVEN_BYTES_MAX / 4;

/** How many more of `left` places an account may take when it already holds `held`; it leaves some to others. */
export function shareOfPlaces(
  left: number,
  { held, isProven }: { readonly held: number; readonly isProven: boolean },
): number {
  const times = isProven ? PROVEN_TIMES : UNPROVEN_TIMES;
  return Math.max(0, Math.ceil((times * left - held) / (times + 1)));
}

/** True while an account's bodies in flight keep it from starting more. */
export function isFullOfBytes(account: Holding, { isProven }: { readonly isProven: boolean }) {
  const isUnprovenFull = !isProven && account.unproven.bytes >= ACCOUNT_UNPROVEN_BYTES_MAX;
  return isUnprovenFull || account.bytes >= ACCOUNT_BYTES_MAX;
}

/** The places that are left: to lanes in general, and to those with nothing in flight, one each. */
interface PlacesLeft {
  readonly wide: number;
  readonly idle: number;
}

/** The places of all lanes together: how many are taken, and how many more a lane may have. */
export class LanePlaces {
  /** May be set anew: what is under way beyond it goes on. */
  max: number;
  /** The places that all accounts hold. */
  readonly taken = new Holding();

  constructor(max: number) {
    this.max = max;
  }

  get inFlight(): number {
    return this.taken.fresh + this.taken.retries;
  }

  /**
   * How many more attempts of a class a lane may start, by the limits of all lanes together and of its account; 0 for
   * none. Of two lanes with the same standing, the account that holds less never gets less.
   */
  room(of: AttemptClass, lane: LaneStanding, account: Holding): number {
    const { bytes, unproven } = this.taken;
    const isUnprovenFull = !lane.isProven && unproven.bytes >= UNPROVEN_BYTES_MAX;
    if (bytes >= BYTES_MAX || isUnprovenFull) return 0;
    const held = account.placesOf(of, lane);
    const left = of === "fresh" ? this.#freshLeft(lane) : this.#retriesLeft(lane);
    const share = this.#share(left.wide, { held, isProven: lane.isProven });
    if (share > 0 || !lane.isIdle) return share;
    return Math.min(1, this.#share(left.idle, { held, isProven: lane.isProven }));
  }

  #share(left: number, account: Parameters<typeof shareOfPlaces>[1]): number {
    return shareOfPlaces(Math.min(left, this.max - this.inFlight), account);
  }

  #freshLeft({ isProven }: LaneStanding): PlacesLeft {
    const { fresh } = this.taken;
    const max = Math.max(1, this.max - this.#part(RETRIES_KEPT_PART));
    const wideMax = Math.min(max, this.#part(SHARED_PART - RETRIES_KEPT_PART));
    const wide = Math.min(this.#sharedRoom(isProven), wideMax - fresh);
    const idleMax = isProven ? Infinity : this.#part(UNPROVEN_IDLE_PART) - this.#unprovenPlaces;
    return { wide, idle: Math.min(idleMax, max - fresh) };
  }

  #retriesLeft({ isProven }: LaneStanding): PlacesLeft {
    const { retries, unproven } = this.taken;
    const kept = this.#part(RETRIES_KEPT_PART) - retries;
    const unprovenMax = isProven ? Infinity : this.#part(UNPROVEN_RETRIES_PART) - unproven.retries;
    const max = Math.min(this.#part(RETRIES_PART) - retries, unprovenMax);
    const idleMax = isProven ? Infinity : this.#part(SHARED_PART) - this.#unprovenPlaces;
    const wide = Math.min(Math.max(this.#sharedRoom(isProven), kept), max);
    return { wide, idle: Math.min(idleMax, max) };
  }

  #sharedRoom(isProven: boolean): number {
    const shared = this.#part(SHARED_PART) - this.inFlight;
    if (isProven) return shared;
    return Math.min(shared, this.#part(UNPROVEN_PART) - this.#unprovenPlaces);
  }

  get #unprovenPlaces(): number {
    return this.taken.unproven.fresh + this.taken.unproven.retries;
  }

  #part(part: number): number {
    return Math.ceil(this.max * part);
  }
}
