import type { ClaimedAttempt, LaneRef } from "../store/store.ts";
import { bytesOf, keyOf } from "./claimed-load.ts";

/** An attempt that is in flight on disk, and is sent as soon as its lane gets a place. */
export interface ReadyAttempt {
  readonly attempt: ClaimedAttempt;
  /** The life of this node in which it was claimed. */
  readonly life: string;
}

/** First attempts of a lane. */
interface ReadyLane {
  readonly ref: LaneRef;
  readonly waiting: ReadyAttempt[];
  /** Whether the store had more that were due, when it was asked last. */
  readonly hasMore: boolean;
}

// About what the busiest lane sends while a claim is committed.
const LANE_MAX = 32;
const ALL_MAX = 256;
const BYTES_MAX = 8 * 1024 * 1024;

/**
 * First attempts that were claimed before there was a place for them. A lane with a backlog then fills a place at the
 * moment when it is free; otherwise the place waits for a claim's commit, which takes as long as a quick receiver.
 * There are few of them: what waits here is read again by nobody, and a crash makes it `interrupted`.
 */
export class ReadyAttempts {
  readonly #maxOf: (ref: LaneRef) => number;
  readonly #lanes = new Map<string, ReadyLane>();
  #size = 0;
  #bytes = 0;

  /** `maxOf` tells how many of a lane may wait here. */
  constructor(maxOf: (ref: LaneRef) => number) {
    this.#maxOf = (ref) => Math.min(LANE_MAX, maxOf(ref));
  }

  get isEmpty(): boolean {
    return this.#size === 0;
  }

  /** How many more one claim may bring for each of these lanes, beyond its places. */
  rooms(lanes: readonly LaneRef[]): readonly number[] {
    let left = this.#bytes >= BYTES_MAX ? 0 : ALL_MAX - this.#size;
    return lanes.map((ref) => {
      const room = Math.max(0, Math.min(left, this.#maxOf(ref) - this.#waiting(ref)));
      left -= room;
      return room;
    });
  }

  /** Whether a claim is worth its while that brings a lane nothing but what waits here. */
  isRunningOut(ref: LaneRef): boolean {
    const hasMore = this.#lanes.get(keyOf(ref))?.hasMore === true;
    return hasMore && this.#waiting(ref) <= this.#maxOf(ref) / 2;
  }

  /** Adds what a claim brought beyond a lane's places. */
  add(
    ref: LaneRef,
    more: { readonly ready: readonly ReadyAttempt[]; readonly hasMore: boolean },
  ): void {
    const key = keyOf(ref);
    const waiting = [...(this.#lanes.get(key)?.waiting ?? []), ...more.ready];
    this.#count(more.ready, 1);
    if (waiting.length > 0) this.#lanes.set(key, { ref, waiting, hasMore: more.hasMore });
  }

  /** Takes out up to `max` attempts of a lane, those first that came first. */
  take(ref: LaneRef, max: number): readonly ReadyAttempt[] {
    const key = keyOf(ref);
    const lane = this.#lanes.get(key);
    if (lane === undefined) return [];
    const taken = lane.waiting.splice(0, max);
    this.#count(taken, -1);
    if (lane.waiting.length === 0) this.#lanes.delete(key);
    return taken;
  }

  /** True while a lane has attempts here. */
  has(ref: LaneRef): boolean {
    return this.#lanes.has(keyOf(ref));
  }

  /** Takes out all attempts of these lanes. */
  takeAll(isMeant: (ref: LaneRef) => boolean): readonly ReadyAttempt[] {
    const lanes = [...this.#lanes.values()].filter(({ ref }) => isMeant(ref));
    return lanes.flatMap(({ ref }) => this.take(ref, Infinity));
  }

  #waiting(ref: LaneRef): number {
    return this.#lanes.get(keyOf(ref))?.waiting.length ?? 0;
  }

  #count(attempts: readonly ReadyAttempt[], sign: 1 | -1): void {
    this.#size += sign * attempts.length;
    for (const { attempt } of attempts) this.#bytes += sign * bytesOf(attempt);
  }
}
