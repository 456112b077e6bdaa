import type { Lane, LaneRef } from "../store.ts";
import { CAREFUL_EVERY_MS, COMMIT_MS, COMMIT_MS_MAX, WHOLE_EVERY_MS } from "./floor-times.ts";

/** In one lane: from which due time on attempts of a retry count are looked for. */
export interface LaneFloor {
  readonly retry: number;
  readonly dueAt: number;
}

/**
 * From which due time on a node looks for scheduled attempts, by lane and retry count: as `QueueFloors` for tasks, and
 * for the same reason. What was scheduled for an earlier time and became visible later is told of by the look at what
 * became due, each second, or by that at all lanes, each minute: either has the lane forgotten.
 */
export class LaneFloors {
  readonly #lanes = new Map<string, KnownLane>();
  #life = 0;

  /** Forgets all of it. */
  forget(): void {
    this.#lanes.clear();
    this.#life++;
  }

  /**
   * These lanes have something scheduled: forgets those of which it was not known. What was due from a time on that is
   * given, claims find by themselves.
   */
  found(lanes: readonly Lane[], foundFrom = Infinity): void {
    for (const lane of lanes) {
      const known = this.#lanes.get(keyOf(lane));
      const earliest = Math.min(lane.freshDueAt ?? Infinity, lane.retryDueAt ?? Infinity);
      if (known === undefined || earliest >= foundFrom) continue;
      if ([...known.floors.values()].some((dueAt) => earliest < dueAt)) this.#forgetLane(lane);
    }
  }

  /** This node schedules an attempt in a lane: forgets the lane if claims would not find it by themselves. */
  scheduled(lane: LaneRef, dueAt: number): void {
    const floors = this.#lanes.get(keyOf(lane))?.floors.values() ?? [];
    if ([...floors].some((floor) => dueAt < floor - COMMIT_MS_MAX)) this.#forgetLane(lane);
  }

  #forgetLane(lane: LaneRef): void {
    this.#lanes.delete(keyOf(lane));
    this.#life++;
  }

  /** For a claim of these lanes. */
  look(lanes: readonly LaneRef[], now: number): LaneLook {
    const life = this.#life;
    const floors = lanes.map((lane) => this.#floorsOf(lane, now));
    return {
      floors,
      learn: (place, left) => {
        const lane = lanes[place];
        if (lane === undefined || this.#life !== life) return;
        this.#learn(lane, { known: floors[place] ?? [], left, now });
      },
    };
  }

  #floorsOf(lane: LaneRef, now: number): readonly LaneFloor[] {
    const known = this.#lanes.get(keyOf(lane));
    if (known === undefined) return [];
    // Also when the clock was set back.
    if (now < known.carefulAt || now - known.since >= WHOLE_EVERY_MS) {
      this.#lanes.delete(keyOf(lane));
      return [];
    }
    const isCareful = now - known.carefulAt >= CAREFUL_EVERY_MS;
    if (isCareful) known.carefulAt = now;
    const latest = now - (isCareful ? COMMIT_MS_MAX : COMMIT_MS);
    return [...known.floors].map(([retry, dueAt]) => ({ retry, dueAt: Math.min(dueAt, latest) }));
  }

  #learn(lane: LaneRef, { known, left, now }: Learnt): void {
    const key = keyOf(lane);
    const { since, carefulAt } = this.#lanes.get(key) ?? { since: now, carefulAt: now };
    const floors = new Map(known.map(({ retry }) => [retry, now]));
    for (const { retry, dueAt } of left) floors.set(retry, Math.min(dueAt ?? now, now));
    // Those that were claimed last come last.
    this.#lanes.delete(key);
    this.#lanes.set(key, { since, carefulAt, floors });
    const [oldest] = this.#lanes.keys();
    if (this.#lanes.size > LANES_MAX && oldest !== undefined) this.#lanes.delete(oldest);
  }
}

/** The attempts that one claim passes over, and how it tells what it has learnt, once it has committed. */
export interface LaneLook {
  /** Of each lane. */
  readonly floors: readonly (readonly LaneFloor[])[];
  /** The attempts that a lane has left of each retry count that was met; null where all of it was taken. */
  learn(place: number, left: readonly LeftOfRetry[]): void;
}

export interface LeftOfRetry {
  readonly retry: number;
  readonly dueAt: number | null;
}

interface KnownLane {
  /** When all of the lane was looked at. */
  readonly since: number;
  /** When late commits were looked for last. */
  carefulAt: number;
  /** By retry count. */
  readonly floors: ReadonlyMap<number, number>;
}

interface Learnt {
  readonly known: readonly LaneFloor[];
  readonly left: readonly LeftOfRetry[];
  readonly now: number;
}

const LANES_MAX = 1000;

function keyOf({ accountId, host }: LaneRef): string {
  return `${accountId} ${host}`;
}

/** The floors as the columns of an `unnest`: places from 1, retry counts, due times. */
export function floorColumns({ floors }: LaneLook) {
  const all = floors.flatMap((ofLane, i) => ofLane.map((floor) => ({ ...floor, place: i + 1 })));
  return [
    all.map(({ place }) => place),
    all.map(({ retry }) => retry),
    all.map(({ dueAt }) => dueAt),
  ] as const;
}
