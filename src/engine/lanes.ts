/** How many attempts may be under way. */
export interface LaneLimits {
  readonly inFlightMax: number;
  readonly inFlightPerHostMax: number;
}

interface LaneState {
  readonly host: string;
  /** When its earliest scheduled attempt is due; null when none is known. */
  dueAt: number | null;
  inFlight: number;
  /** Where it stands in the heap of later lanes; -1 when it does not. */
  heapIndex: number;
}

// Lanes asked for in one claim: it bounds the length of a claim's transaction.
const LANES_PER_CLAIM_MAX = 64;
const SHARED_PART = 3 / 4;

/**
 * One lane for each host with something to send: how many of its attempts are in flight and when its next is
 * due. A lane is in exactly one place:
 *
 *     idle (forgotten) → later (a heap, by due time) → due (waits for its turn) ⇄ full (at its limit)
 *
 * Due lanes take turns, so that a host with a million attempts waiting gets no more than one with ten. A
 * host that hangs fills its own lane and nothing else. Attempts that are not due cost nothing: what waits
 * is in the store, and a lane remembers only its earliest.
 */
export class Lanes {
  readonly #limits: LaneLimits;
  readonly #lanes = new Map<string, LaneState>();
  /** Lanes that are due and below their limit, in the order of their turns. */
  readonly #due = new Set<LaneState>();
  readonly #later = new DueHeap();
  #inFlight = 0;

  constructor(limits: LaneLimits) {
    this.#limits = limits;
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** True when nothing is in flight and nothing is due at `now`. */
  isIdle(now: number): boolean {
    this.#advance(now);
    return this.#inFlight === 0 && this.#due.size === 0;
  }

  /** Takes note that a host has an attempt due at a time. */
  noteDue(host: string, dueAt: number): void {
    const lane = this.#laneOf(host);
    if (lane.dueAt !== null && lane.dueAt <= dueAt) return;
    lane.dueAt = dueAt;
    this.#place(lane);
  }

  /**
   * The lanes to claim from now, with how many attempts each may start; counted as in flight at once.
   * Answer each with {@link claimed}.
   */
  take(now: number): LaneShare[] {
    this.#advance(now);
    const shares: LaneShare[] = [];
    for (const lane of this.#due) {
      const isFull = this.#inFlight >= this.#limits.inFlightMax;
      if (isFull || shares.length === LANES_PER_CLAIM_MAX) break;
      const max = this.#room(lane);
      if (max === 0) continue;
      lane.dueAt = null;
      this.#count(lane, max);
      shares.push({ host: lane.host, max });
    }
    return shares;
  }

  /** What came of a share: how many attempts were really started, and when the lane's next is due. */
  claimed(share: LaneShare, outcome: { started: number; dueAt: number | null }): void {
    if (outcome.dueAt !== null) this.noteDue(share.host, outcome.dueAt);
    this.#count(this.#laneOf(share.host), outcome.started - share.max);
  }

  /** An attempt of the host has ended and is recorded. */
  ended(host: string): void {
    this.#count(this.#laneOf(host), -1);
  }

  // The last quarter is kept for lanes with nothing in flight, one place each: many hosts that hang together
  // must not keep a healthy one from being served.
  #room(lane: LaneState): number {
    const { inFlightMax, inFlightPerHostMax } = this.#limits;
    const shared = Math.ceil(inFlightMax * SHARED_PART) - this.#inFlight;
    if (shared > 0) return Math.min(shared, inFlightPerHostMax - lane.inFlight);
    return lane.inFlight === 0 ? 1 : 0;
  }

  #laneOf(host: string): LaneState {
    let lane = this.#lanes.get(host);
    if (lane === undefined) {
      lane = { host, dueAt: null, inFlight: 0, heapIndex: -1 };
      this.#lanes.set(host, lane);
    }
    return lane;
  }

  #count(lane: LaneState, change: number): void {
    lane.inFlight += change;
    this.#inFlight += change;
    this.#place(lane);
  }

  // The one function that moves a lane. A lane that is due keeps its turn while it stays below its limit.
  #place(lane: LaneState): void {
    const isWaiting = lane.dueAt !== null && lane.inFlight < this.#limits.inFlightPerHostMax;
    if (!isWaiting) {
      this.#due.delete(lane);
      this.#later.remove(lane);
      if (lane.dueAt === null && lane.inFlight === 0) this.#lanes.delete(lane.host);
    } else if (!this.#due.has(lane)) this.#later.put(lane);
  }

  #advance(now: number): void {
    for (let next = this.#later.first; next !== undefined; next = this.#later.first) {
      if (dueAtOf(next) > now) return;
      this.#later.remove(next);
      this.#due.add(next);
    }
  }
}

/** How many attempts of a host a claim may start. */
export interface LaneShare {
  readonly host: string;
  readonly max: number;
}

function dueAtOf(lane: LaneState | undefined): number {
  return lane?.dueAt ?? Infinity;
}

/** A binary heap of lanes, earliest due first. Each lane knows its place, so that it is in it only once. */
class DueHeap {
  readonly #lanes: LaneState[] = [];

  get first(): LaneState | undefined {
    return this.#lanes[0];
  }

  /** Adds a lane, or moves it to where its changed due time belongs. */
  put(lane: LaneState): void {
    if (lane.heapIndex === -1) this.#set(this.#lanes.length, lane);
    this.#sift(lane);
  }

  remove(lane: LaneState): void {
    if (lane.heapIndex === -1) return;
    const last = this.#lanes.pop();
    if (last !== undefined && last !== lane) {
      this.#set(lane.heapIndex, last);
      this.#sift(last);
    }
    lane.heapIndex = -1;
  }

  #set(index: number, lane: LaneState): void {
    this.#lanes[index] = lane;
    lane.heapIndex = index;
  }

  #sift(lane: LaneState): void {
    const parent = this.#lanes[(lane.heapIndex - 1) >> 1];
    if (parent !== undefined && dueAtOf(lane) < dueAtOf(parent)) this.#siftUp(lane);
    else this.#siftDown(lane);
  }

  #siftUp(lane: LaneState): void {
    while (lane.heapIndex > 0) {
      const parent = this.#lanes[(lane.heapIndex - 1) >> 1];
      if (parent === undefined || dueAtOf(parent) <= dueAtOf(lane)) return;
      this.#swap(lane, parent);
    }
  }

  #siftDown(lane: LaneState): void {
    for (;;) {
      const [left, right] = [2 * lane.heapIndex + 1, 2 * lane.heapIndex + 2];
      const isRight = dueAtOf(this.#lanes[right]) < dueAtOf(this.#lanes[left]);
      const child = this.#lanes[isRight ? right : left];
      if (child === undefined || dueAtOf(lane) <= dueAtOf(child)) return;
      this.#swap(lane, child);
    }
  }

  #swap(a: LaneState, b: LaneState): void {
    const index = a.heapIndex;
    this.#set(b.heapIndex, a);
    this.#set(index, b);
  }
}
