/** How many attempts may be under way. */
export interface LaneLimits {
  readonly inFlightMax: number;
  readonly inFlightPerHostMax: number;
}

/** First attempts, or what comes after a failure: retries give way to first attempts. */
export type AttemptClass = "fresh" | "retries";

export const ATTEMPT_CLASSES: readonly AttemptClass[] = ["fresh", "retries"];

/** What decides which places a lane may have. */
export interface LaneStanding {
  /** Nothing of it is in flight. */
  readonly isIdle: boolean;
  /** Its host has answered, or failed soon, the last time. */
  readonly isProven: boolean;
}

/** What attempts in flight hold: places by class, and memory for their bodies. */
export interface Load {
  readonly fresh: number;
  readonly retries: number;
  readonly bytes: number;
}

// Beyond three quarters places are kept for lanes with nothing in flight, one each: many hosts that hang together
// must not keep a healthy one from being served.
const SHARED_PART = 3 / 4;
// Retries have a quarter at most, and first attempts leave them an eighth: a storm of retries does not hold up
// what has just finished, nor a flood of fresh ones the retries.
const RETRIES_PART = 1 / 4;
const RETRIES_KEPT_PART = 1 / 8;
// What is left of the retries' quarter is for hosts that answer: without it a thousand hosts that hang, each with
// retries due, hold up the one retry of another by minutes (simulated: 5 of them).
const UNPROVEN_RETRIES_PART = 3 / 16;
// All hosts that have not answered have half of the places; with one place for each that is idle an eighth more, and
// with the retries' own eighth never the last quarter: a thousand dead hosts leave that to those that answer.
const UNPROVEN_PART = 1 / 2;
const UNPROVEN_IDLE_PART = 5 / 8;

// Bodies held for sending; more are claimed when these have gone out. Large results must not fill the memory.
const BYTES_MAX = 64 * 1024 * 1024;
const UNPROVEN_BYTES_MAX = BYTES_MAX / 2;

/** The places of all lanes together: how many are taken, and how many more a lane may have. */
export class LanePlaces {
  readonly #max: number;
  readonly #taken = { fresh: 0, retries: 0, bytes: 0 };
  readonly #unproven = { places: 0, bytes: 0 };

  constructor(max: number) {
    this.#max = max;
  }

  get inFlight(): number {
    return this.#taken.fresh + this.#taken.retries;
  }

  /** How many more attempts of a class a lane may start, as far as all lanes together go; 0 for none. */
  room(of: AttemptClass, lane: LaneStanding): number {
    const isFull = this.#taken.bytes >= BYTES_MAX;
    const isUnprovenFull = !lane.isProven && this.#unproven.bytes >= UNPROVEN_BYTES_MAX;
    if (isFull || isUnprovenFull) return 0;
    const room = of === "fresh" ? this.#freshRoom(lane) : this.#retryRoom(lane);
    return Math.max(0, Math.min(room, this.#max - this.inFlight));
  }

  /** Takes places, or gives them back with numbers below zero. */
  add(load: Load, { isProven }: Pick<LaneStanding, "isProven">): void {
    this.#taken.fresh += load.fresh;
    this.#taken.retries += load.retries;
    this.#taken.bytes += load.bytes;
    if (!isProven) this.addUnproven({ places: load.fresh + load.retries, bytes: load.bytes });
  }

  /** What is taken already now counts as that of an unproven lane; below zero, no longer. */
  addUnproven({ places, bytes }: { readonly places: number; readonly bytes: number }): void {
    this.#unproven.places += places;
    this.#unproven.bytes += bytes;
  }

  #freshRoom({ isIdle, isProven }: LaneStanding): number {
    const { fresh } = this.#taken;
    const max = Math.max(1, this.#max - this.#part(RETRIES_KEPT_PART));
    const wideMax = Math.min(max, this.#part(SHARED_PART - RETRIES_KEPT_PART));
    const wide = Math.min(this.#sharedRoom(isProven), wideMax - fresh);
    if (wide > 0 || !isIdle || fresh >= max) return wide;
    return isProven || this.#unproven.places < this.#part(UNPROVEN_IDLE_PART) ? 1 : 0;
  }

  #retryRoom({ isProven }: LaneStanding): number {
    const { retries } = this.#taken;
    const kept = this.#part(RETRIES_KEPT_PART) - retries;
    const max = this.#part(isProven ? RETRIES_PART : UNPROVEN_RETRIES_PART) - retries;
    return Math.min(Math.max(this.#sharedRoom(isProven), kept), max);
  }

  #sharedRoom(isProven: boolean): number {
    const shared = this.#part(SHARED_PART) - this.inFlight;
    if (isProven) return shared;
    return Math.min(shared, this.#part(UNPROVEN_PART) - this.#unproven.places);
  }

  #part(part: number): number {
    return Math.ceil(this.#max * part);
  }
}
