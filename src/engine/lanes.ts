import type { Lane, LaneShare } from "../store/store.ts";
import {
  ATTEMPT_CLASSES,
  LanePlaces,
  type AttemptClass,
  type LaneLimits,
  type LaneStanding,
  type Load,
} from "./lane-places.ts";
import { RankHeap, type HeapEntry } from "./rank-heap.ts";

/** How an attempt held its place: `quick` gave it back soon, `slow` was waited for, `unknown` says nothing. */
export type Pace = "quick" | "slow" | "unknown";

/** What came of a share: how many attempts were really started, how large, and what the lane has left. */
export interface ShareOutcome extends Load {
  readonly left: Lane;
}

/** An attempt that has ended and is recorded. */
export interface EndedAttempt {
  readonly host: string;
  readonly class: AttemptClass;
  readonly bytes: number;
  readonly pace: Pace;
}

interface LaneState {
  readonly host: string;
  readonly fresh: LaneQueue;
  readonly retries: LaneQueue;
  inFlight: number;
  /** Of the bodies in flight. */
  bytes: number;
  /** Places given while both classes were due: every fourth is for a retry. */
  turns: number;
}

/** What a lane has of one class. Its rank is its due time while it is later, its turn while it is due. */
interface LaneQueue extends HeapEntry {
  readonly host: string;
  readonly class: AttemptClass;
  /** When its earliest is due; null when none is known. */
  dueAt: number | null;
  heap: RankHeap<LaneQueue> | null;
}

/** Due queues that the same rule gives places: none of them can go when its first cannot. */
interface DueGroup extends LaneStanding {
  readonly class: AttemptClass;
  readonly queues: RankHeap<LaneQueue>;
}

// Lanes asked for in one claim: it bounds the length of a claim's transaction. Retries are left some: where
// more first attempts are due than a claim takes, there would never be a turn for them.
const LANES_PER_CLAIM_MAX = 64;
const FRESH_LANES_PER_CLAIM_MAX = 48;
const RETRY_TURN = 4;
// What a host that has not answered yet, or not in time, may take of its lane. A dead host so holds 4 connections
// open for 10 s, not 32.
const UNPROVEN_IN_FLIGHT_MAX = 4;
// Bodies in flight to one host, beyond which its lane is full: a host that hangs must not hold all the memory that
// bodies may have.
const LANE_BYTES_MAX = 8 * 1024 * 1024;
// Hosts that are remembered as proven; one that is forgotten has to prove itself again.
const PROVEN_MAX = 10_000;

/**
 * One lane for each host with something to send: how many of its attempts are in flight and when its next first
 * attempt and its next retry are due. Each of these two queues is in exactly one place:
 *
 *     empty → later (by due time) → due (by turn) ⇄ held (its lane is full)
 *
 * Due lanes take turns, first attempts before retries, so that a host with a million attempts waiting gets no more
 * than one with ten. A host that hangs fills a narrow lane of its own and nothing else. Attempts that are not due cost
 * nothing: what waits is in the store, and a queue remembers only its earliest. Nothing is looked at that cannot go.
 */
export class Lanes {
  readonly #limits: LaneLimits;
  readonly #places: LanePlaces;
  readonly #lanes = new Map<string, LaneState>();
  readonly #later = new RankHeap<LaneQueue>();
  readonly #due: readonly DueGroup[] = newDueGroups();
  /** Those that proved themselves longest ago first. */
  readonly #proven = new Set<string>();
  #lastTurn = 0;

  constructor(limits: LaneLimits) {
    this.#limits = limits;
    this.#places = new LanePlaces(limits.inFlightMax);
  }

  get inFlight(): number {
    return this.#places.inFlight;
  }

  /** Lanes that are remembered: those with something scheduled or in flight. */
  get size(): number {
    return this.#lanes.size;
  }

  /** True when nothing is in flight and nothing is due at `now`. */
  isIdle(now: number): boolean {
    this.#advance(now);
    return this.inFlight === 0 && this.#due.every(({ queues }) => queues.first === undefined);
  }

  /** Takes note that a host has an attempt due at a time. */
  noteDue(host: string, due: { readonly class: AttemptClass; readonly dueAt: number }): void {
    const lane = this.#laneOf(host);
    const queue = lane[due.class];
    if (queue.dueAt !== null && queue.dueAt <= due.dueAt) return;
    queue.dueAt = due.dueAt;
    this.#place(queue, lane);
  }

  /** Takes note of what a lane has scheduled. */
  note({ host, freshDueAt, retryDueAt }: Lane): void {
    if (freshDueAt !== null) this.noteDue(host, { class: "fresh", dueAt: freshDueAt });
    if (retryDueAt !== null) this.noteDue(host, { class: "retries", dueAt: retryDueAt });
  }

  /** Moves every due time by `by` milliseconds: the wall clock was set by as much. */
  shift(by: number): void {
    const lanes = [...this.#lanes.values()];
    const queues = lanes.flatMap((lane) => [lane.fresh, lane.retries]);
    // All are taken out before the first is changed: a heap of old and new times is none.
    for (const queue of queues) move(queue, null);
    for (const queue of queues) if (queue.dueAt !== null) queue.dueAt += by;
    for (const lane of lanes) this.#placeBoth(lane);
  }

  /**
   * The lanes to claim from now, with how many attempts each may start; counted as in flight at once. Answer each
   * with {@link claimed}.
   */
  take(now: number): LaneShare[] {
    this.#advance(now);
    const shares = new Map<string, LaneShare>();
    this.#giveTurns("fresh", { shares, lanesMax: FRESH_LANES_PER_CLAIM_MAX });
    this.#giveTurns("retries", { shares, lanesMax: LANES_PER_CLAIM_MAX });
    return [...shares.values()];
  }

  /** Takes note of what came of a share. */
  claimed(share: LaneShare, outcome: ShareOutcome): void {
    this.note(outcome.left);
    this.#add(this.#laneOf(share.host), {
      fresh: outcome.fresh - share.fresh,
      retries: outcome.retries - share.retries,
      bytes: outcome.bytes,
    });
  }

  /** Gives back what an attempt held. */
  ended({ host, class: of, bytes, pace }: EndedAttempt): void {
    const lane = this.#laneOf(host);
    if (pace !== "unknown") this.#setProven(lane, pace === "quick");
    this.#add(lane, { fresh: 0, retries: 0, [of]: -1, bytes: -bytes });
  }

  #giveTurns(
    of: AttemptClass,
    claim: { readonly shares: Map<string, LaneShare>; readonly lanesMax: number },
  ): void {
    while (claim.shares.size < claim.lanesMax) {
      const queue = this.#nextTurn(of);
      if (queue === undefined) return;
      this.#giveTurn(queue, claim.shares);
    }
  }

  #nextTurn(of: AttemptClass): LaneQueue | undefined {
    let next: LaneQueue | undefined;
    for (const group of this.#due) {
      const { first } = group.queues;
      if (group.class !== of || first === undefined) continue;
      const isSooner = next === undefined || first.rank < next.rank;
      if (isSooner && this.#places.room(of, group) > 0) next = first;
    }
    return next;
  }

  #giveTurn(queue: LaneQueue, shares: Map<string, LaneShare>): void {
    const lane = this.#laneOf(queue.host);
    const room = this.#places.room(queue.class, this.#standing(lane));
    // One at a time to a host that has not answered: those that never will must not go before one that is asked for
    // the first time.
    const turn = this.#proven.has(lane.host) ? Infinity : 1;
    const places = Math.min(room, this.#laneRoom(lane), turn);
    const retries = queue.class === "retries" ? places : this.#retryTurns(lane, places);
    const given = { fresh: places - retries, retries };
    for (const of of ATTEMPT_CLASSES) if (given[of] > 0) lane[of].dueAt = null;
    const share = shares.get(lane.host) ?? { host: lane.host, fresh: 0, retries: 0 };
    const fresh = share.fresh + given.fresh;
    shares.set(lane.host, { ...share, fresh, retries: share.retries + retries });
    this.#add(lane, { ...given, bytes: 0 });
  }

  // Of the places that a lane gets while both classes are due, every fourth is left to a retry.
  #retryTurns(lane: LaneState, places: number): number {
    if (!this.#isDue(lane.retries)) return 0;
    const turns = lane.turns + places;
    lane.turns = turns % RETRY_TURN;
    const room = this.#places.room("retries", this.#standing(lane));
    return Math.min(Math.floor(turns / RETRY_TURN), room);
  }

  #laneRoom(lane: LaneState): number {
    if (lane.bytes >= LANE_BYTES_MAX) return 0;
    const { inFlightPerHostMax } = this.#limits;
    const max = this.#proven.has(lane.host)
      ? inFlightPerHostMax
      : Math.min(inFlightPerHostMax, UNPROVEN_IN_FLIGHT_MAX);
    return Math.max(0, max - lane.inFlight);
  }

  #standing(lane: LaneState): LaneStanding {
    return { isIdle: lane.inFlight === 0, isProven: this.#proven.has(lane.host) };
  }

  #laneOf(host: string): LaneState {
    let lane = this.#lanes.get(host);
    if (lane === undefined) {
      const fresh = newQueue(host, "fresh");
      const retries = newQueue(host, "retries");
      lane = { host, fresh, retries, inFlight: 0, bytes: 0, turns: 0 };
      this.#lanes.set(host, lane);
    }
    return lane;
  }

  #add(lane: LaneState, load: Load): void {
    lane.inFlight += load.fresh + load.retries;
    lane.bytes += load.bytes;
    this.#places.add(load, this.#standing(lane));
    this.#placeBoth(lane);
    const isEmpty = lane.fresh.dueAt === null && lane.retries.dueAt === null;
    if (isEmpty && lane.inFlight === 0) this.#lanes.delete(lane.host);
  }

  #setProven({ host }: { readonly host: string }, isProven: boolean): void {
    const wasProven = this.#proven.delete(host);
    if (isProven) this.#proven.add(host);
    if (wasProven !== isProven) this.#recount(host, isProven);
    const [oldest] = this.#proven;
    if (this.#proven.size <= PROVEN_MAX || oldest === undefined) return;
    this.#proven.delete(oldest);
    this.#recount(oldest, false);
  }

  #recount(host: string, isProven: boolean): void {
    const lane = this.#lanes.get(host);
    if (lane === undefined) return;
    const sign = isProven ? -1 : 1;
    this.#places.addUnproven({ places: sign * lane.inFlight, bytes: sign * lane.bytes });
    this.#placeBoth(lane);
  }

  #placeBoth(lane: LaneState): void {
    this.#place(lane.fresh, lane);
    this.#place(lane.retries, lane);
  }

  // One that is due keeps its turn while its lane has room.
  #place(queue: LaneQueue, lane: LaneState): void {
    if (queue.dueAt === null || this.#laneRoom(lane) === 0) return move(queue, null);
    if (this.#isDue(queue)) return move(queue, this.#groupOf(queue, lane));
    queue.rank = queue.dueAt;
    move(queue, this.#later);
  }

  #isDue({ heap }: LaneQueue): boolean {
    return heap !== null && heap !== this.#later;
  }

  #groupOf(queue: LaneQueue, lane: LaneState): RankHeap<LaneQueue> | null {
    const { isIdle, isProven } = this.#standing(lane);
    const group = this.#due.find(
      (each) => each.class === queue.class && each.isIdle === isIdle && each.isProven === isProven,
    );
    return group?.queues ?? null;
  }

  #advance(now: number): void {
    for (let next = this.#later.first; next !== undefined; next = this.#later.first) {
      if (next.rank > now) return;
      const group = this.#groupOf(next, this.#laneOf(next.host));
      move(next, null);
      next.rank = ++this.#lastTurn;
      move(next, group);
    }
  }
}

// The one function that moves a queue, or finds its place again where it is.
function move(queue: LaneQueue, heap: RankHeap<LaneQueue> | null): void {
  if (queue.heap !== heap) queue.heap?.remove(queue);
  queue.heap = heap;
  heap?.put(queue);
}

function newQueue(host: string, of: AttemptClass): LaneQueue {
  return { host, class: of, dueAt: null, heap: null, rank: 0, heapIndex: -1 };
}

function newDueGroups(): DueGroup[] {
  const standings = [true, false].flatMap((isIdle) =>
    [true, false].map((isProven) => ({ isIdle, isProven })),
  );
  return ATTEMPT_CLASSES.flatMap((of) =>
    standings.map((standing) => ({ ...standing, class: of, queues: new RankHeap<LaneQueue>() })),
  );
}
