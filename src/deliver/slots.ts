import { shareOfHost, type NodeView } from "../domain/webhook/delivery.ts";

/** Attempts before any retry was used up, or after it: retries give way to the others. */
export type AttemptClass = "fresh" | "retries";

/** How many attempts may be in flight, at all nodes together. */
export interface SlotLimits {
  readonly inFlightMax: number;
  readonly inFlightPerHostMax: number;
}

/** How many attempts to a host this node may have in flight: of all lanes, and of a probing lane. */
export interface HostSlots {
  readonly all: number;
  readonly probing: number;
}

// The most slots of a lane whose host has not responded: a dead host holds 4 connections for 10 s, not 32.
const PROBING_IN_FLIGHT_MAX = 4;

/** This node's share of a host's slots. If it has any, a probing lane has one, or it would never become healthy. */
export function slotsAt(host: string, max: number, view: NodeView): HostSlots {
  const all = shareOfHost(max, host, view);
  const probing = shareOfHost(Math.min(max, PROBING_IN_FLIGHT_MAX), host, view);
  return { all, probing: Math.min(all, Math.max(1, probing)) };
}

/** The standing of a lane, which decides how many slots it may have. */
export interface Standing {
  readonly isIdle: boolean;
  /** True if its host has responded to its account, or failed quickly, the last time. */
  readonly isHealthy: boolean;
}

/** The load of attempts in flight: slots by class, and memory for their bodies. */
export interface Load {
  readonly fresh: number;
  readonly retries: number;
  readonly bytes: number;
}

export class LoadSum implements Load {
  fresh = 0;
  retries = 0;
  bytes = 0;

  add({ fresh, retries, bytes }: Load, sign: 1 | -1 = 1): void {
    this.fresh += sign * fresh;
    this.retries += sign * retries;
    this.bytes += sign * bytes;
  }

  get inFlight(): number {
    return this.fresh + this.retries;
  }
}

/** The attempts in flight of an account, or of all accounts: in all lanes, and in probing lanes. */
export class Usage {
  readonly all = new LoadSum();
  readonly probing = new LoadSum();

  add(load: Load, { isHealthy }: Pick<Standing, "isHealthy">): void {
    this.all.add(load);
    if (!isHealthy) this.probing.add(load);
  }

  slotsOf(of: AttemptClass, { isHealthy }: Pick<Standing, "isHealthy">): number {
    return isHealthy ? this.all[of] : this.probing[of];
  }
}

// The last quarter of the slots is kept for lanes with nothing in flight, one each: many hosts that hang together must
// not keep a healthy one from being served.
const SHARED_PART = 3 / 4;
// Retries have a quarter at most, and first attempts leave them an eighth. So many retries do not delay tasks that have
// just finished, and many first attempts do not delay retries.
const RETRIES_PART = 1 / 4;
const RETRIES_KEPT_PART = 1 / 8;
// The rest of the retries' quarter is for hosts that respond: without it a thousand hosts that hang, each with retries
// due, hold up the single retry of another by minutes (simulated: 5 of them).
const PROBING_RETRIES_PART = 3 / 16;
// All probing lanes share half of the slots. With one slot for each idle lane they have an eighth more, and with the
// retries' own eighth never the last quarter: a thousand dead hosts leave that to hosts that respond.
const PROBING_PART = 1 / 2;
const PROBING_IDLE_PART = 5 / 8;

// An account may hold so many times what it leaves: an attempt that hangs holds its slot for 10 s, and another account
// that comes meanwhile must find one. A lone account leaves an eighth where hosts respond, and a quarter where they do
// not. It keeps what it needs to be as fast as if nothing were left, and a second account immediately finds 4 slots at
// a host.
const HEALTHY_TIMES = 7;
const PROBING_TIMES = 3;

// The bytes of bodies that are held for sending: large results must not fill the memory.
const BYTES_MAX = 64 * 1024 * 1024;
const PROBING_BYTES_MAX = BYTES_MAX / 2;
// For one account. One claim brings it 8 MiB, and one host may hold as much.
const ACCOUNT_BYTES_MAX = BYTES_MAX / 2;
const ACCOUNT_PROBING_BYTES_MAX = PROBING_BYTES_MAX / 4;

/** How many more of `left` slots an account may take if it already holds `held`; it leaves some to others. */
export function shareOfSlots(left: number, held: number, isHealthy: boolean): number {
  const times = isHealthy ? HEALTHY_TIMES : PROBING_TIMES;
  return Math.max(0, Math.ceil((times * left - held) / (times + 1)));
}

/** True while an account's bodies in flight keep it from starting more. */
export function isFullOfBytes({ all, probing }: Usage, isHealthy: boolean): boolean {
  const isProbingFull = !isHealthy && probing.bytes >= ACCOUNT_PROBING_BYTES_MAX;
  return isProbingFull || all.bytes >= ACCOUNT_BYTES_MAX;
}

/** The slots of all lanes together: how many are in use, and how many more a lane may have. */
export class Slots {
  /** May be set again: attempts in flight beyond it go on. */
  max: number;
  readonly used = new Usage();

  constructor(max: number) {
    this.max = max;
  }

  get inFlight(): number {
    return this.used.all.inFlight;
  }

  /** How many more attempts a lane may start. Of two lanes alike, the account that holds less never gets less. */
  room(of: AttemptClass, { isIdle, isHealthy }: Standing, account: Usage): number {
    const { all, probing } = this.used;
    const isProbingFull = !isHealthy && probing.bytes >= PROBING_BYTES_MAX;
    if (all.bytes >= BYTES_MAX || isProbingFull) return 0;
    const left = of === "fresh" ? this.#freshLeft(isHealthy) : this.#retriesLeft(isHealthy);
    const held = account.slotsOf(of, { isHealthy });
    const free = this.max - this.inFlight;
    const share = shareOfSlots(Math.min(left.shared, free), held, isHealthy);
    if (share > 0 || !isIdle) return share;
    return Math.min(1, shareOfSlots(Math.min(left.idle, free), held, isHealthy));
  }

  /** The slots that are left to lanes in general, and to those with nothing in flight, one each. */
  #freshLeft(isHealthy: boolean): { readonly shared: number; readonly idle: number } {
    const { fresh } = this.used.all;
    const max = Math.max(1, this.max - this.#part(RETRIES_KEPT_PART));
    const sharedMax = Math.min(max, this.#part(SHARED_PART - RETRIES_KEPT_PART));
    const idleMax = this.#unlessHealthy(isHealthy, PROBING_IDLE_PART);
    return {
      shared: Math.min(this.#sharedLeft(isHealthy), sharedMax - fresh),
      idle: Math.min(idleMax, max - fresh),
    };
  }

  #retriesLeft(isHealthy: boolean): { readonly shared: number; readonly idle: number } {
    const { all, probing } = this.used;
    const kept = this.#part(RETRIES_KEPT_PART) - all.retries;
    const probingMax = isHealthy ? Infinity : this.#part(PROBING_RETRIES_PART) - probing.retries;
    const max = Math.min(this.#part(RETRIES_PART) - all.retries, probingMax);
    return {
      shared: Math.min(Math.max(this.#sharedLeft(isHealthy), kept), max),
      idle: Math.min(this.#unlessHealthy(isHealthy, SHARED_PART), max),
    };
  }

  #sharedLeft(isHealthy: boolean): number {
    const shared = this.#part(SHARED_PART) - this.inFlight;
    return Math.min(shared, this.#unlessHealthy(isHealthy, PROBING_PART));
  }

  /** The free slots of the probing lanes' part; no limit for a healthy lane. */
  #unlessHealthy(isHealthy: boolean, part: number): number {
    return isHealthy ? Infinity : this.#part(part) - this.used.probing.inFlight;
  }

  #part(part: number): number {
    return Math.ceil(this.max * part);
  }
}
