import { MINUTE_MS } from "../domain/clock/duration.ts";
import type { LoopDeps, Steps } from "../store/loop.ts";
import { keepTrying, type RetryDeps } from "../store/retry.ts";
import {
  emptyLane,
  requireMember,
  type ClaimedAttempt,
  type Cluster,
  type Lane,
  type LaneRef,
  type LaneShare,
  type Store,
} from "../store/store.ts";
import type { FairQueue } from "./fair-queue.ts";
import { LoadSum, type Load } from "./slots.ts";
import type { TimeShifts } from "./time-shifts.ts";

/** An attempt that this node has claimed: it is in flight on disk, and is sent as soon as its lane gets a slot. */
export interface OwnAttempt {
  readonly attempt: ClaimedAttempt;
  /** The life of this node in which it was claimed. */
  readonly life: string;
}

/** The load of the given attempts together; the size of a body may be estimated too large. */
export function loadOf(attempts: readonly ClaimedAttempt[]): Load {
  const sum = new LoadSum();
  for (const { task, retry, largeBytes } of attempts) {
    sum[retry === 0 ? "fresh" : "retries"]++;
    sum.bytes += largeBytes ?? (task.inputText?.length ?? 0) + (task.resultText?.length ?? 0);
  }
  return sum;
}

interface ClaimsDeps extends RetryDeps, Pick<LoopDeps, "failed"> {
  readonly cluster: Pick<Cluster, "self" | "isMember">;
  readonly store: Pick<Store, "claimAttempts">;
  readonly queue: FairQueue;
  readonly shifts: TimeShifts;
  readonly steps: Steps;
  readonly start: (attempt: OwnAttempt) => void;
  /** Called with the accounts that a claim found disabled, after every claim; then {@link Claims.takeBack} is due. */
  readonly suspend: (accountIds: readonly number[]) => void;
}

// The most lanes that wait for the next claim, which bounds its transaction.
const WAITING_LANES_MAX = 16;
// The engine looks once a second for what is due.
const APART_MS = 1000;
const PUT_OFF_MS = MINUTE_MS;

/** Fills the slots of {@link FairQueue}, one claim at a time, and immediately with {@link Prefetched}. */
export class Claims {
  readonly #deps: ClaimsDeps;
  readonly #prefetched: Prefetched;
  /** The shares of the next claim, by lane. */
  readonly #shares = new Map<string, LaneShare>();
  #isClaiming = false;
  #isDraining = false;
  /** Accounts that were resumed since the last claim began: what the claim says about them is no longer true. */
  #resumed = new Set<number>();

  constructor(deps: ClaimsDeps) {
    this.#deps = deps;
    this.#prefetched = new Prefetched(deps.queue);
  }

  /** Starts all due attempts with a free slot. */
  pump(): void {
    // Read first: reading the time may reveal that the clock was set.
    const now = this.#deps.clock.now();
    const { queue, shifts, steps, cluster, failed } = this.#deps;
    if (shifts.isUnderWay || !cluster.isMember()) return;
    if (this.#mayTake()) for (const share of queue.take(now)) this.#give(share, now);
    if (this.#isDraining || this.#isClaiming || this.#shares.size === 0) return;
    const shares = [...this.#shares.values()];
    this.#shares.clear();
    this.#isClaiming = true;
    void steps.track(this.#claim(shares).catch(failed));
  }

  resume(accountId: number): void {
    this.#resumed.add(accountId);
  }

  /** Takes out what was prefetched of lanes that are closed now, which is in flight on disk. */
  takeBack(): readonly OwnAttempt[] {
    return this.#prefetched.takeAll((lane) => this.#deps.queue.isClosed(lane));
  }

  takeAll(): readonly OwnAttempt[] {
    return this.#prefetched.takeAll(() => true);
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  /** Claims no more; what was prefetched is started. */
  drain(): void {
    this.#isDraining = true;
  }

  // While a claim is in progress, slots for which nothing was prefetched are left to those who have a turn at its end.
  #mayTake(): boolean {
    if (this.#prefetched.isEmpty) return !this.#isDraining && !this.#isClaiming;
    return this.#shares.size < WAITING_LANES_MAX;
  }

  /** Starts what was prefetched for these slots, and leaves the others to the next claim. */
  #give(share: LaneShare, now: number): void {
    const { queue, start } = this.#deps;
    const prefetched = this.#prefetched.take(share, share.fresh);
    if (prefetched.length > 0) {
      const load = loadOf(prefetched.map(({ attempt }) => attempt));
      const left = this.#withPrefetched(emptyLane(share), now);
      queue.claimed({ ...share, fresh: prefetched.length, retries: 0 }, load, left);
      prefetched.forEach(start);
    }
    const rest = { ...share, fresh: share.fresh - prefetched.length };
    const hasRoom = rest.fresh + rest.retries > 0;
    // More of the lane may have become due meanwhile. Only another claim finds out.
    const isEmptied = prefetched.length > 0 && !this.#prefetched.has(share);
    if (this.#isDraining) queue.claimed(rest, loadOf([]), emptyLane(share));
    else if (hasRoom || isEmptied || this.#prefetched.isRunningOut(share)) this.#ask(rest);
  }

  #ask({ accountId, host, fresh, retries }: LaneShare): void {
    const key = keyOf({ accountId, host });
    const before = this.#shares.get(key) ?? { fresh: 0, retries: 0 };
    const sum = { fresh: before.fresh + fresh, retries: before.retries + retries };
    this.#shares.set(key, { accountId, host, ...sum });
  }

  /** The lane, with what was prefetched of it as due. */
  #withPrefetched(lane: Lane, now: number): Lane {
    return this.#prefetched.has(lane) ? { ...lane, freshDueAt: now } : lane;
  }

  async #claim(shares: readonly LaneShare[]): Promise<void> {
    const { store, clock, cluster, shifts, queue, start, suspend } = this.#deps;
    const resumed = new Set<number>();
    this.#resumed = resumed;
    const lanes = this.#prefetched.withRoom(shares);
    try {
      let setMs = 0;
      let life = cluster.self;
      const claim = (): ReturnType<Store["claimAttempts"]> => {
        const now = clock.now();
        setMs = shifts.setMs;
        requireMember(cluster);
        life = cluster.self;
        return store.claimAttempts({ lanes, now });
      };
      const claimed = await keepTrying(claim, this.#deps).catch((error: unknown) => {
        this.#putOff(shares);
        throw error;
      });
      const now = clock.now();
      const byLane = Map.groupBy(claimed.attempts, keyOf);
      const started = shares.flatMap((share, i) => {
        // The store returned it in the time of the clock as it was then.
        const left = movedLane(claimed.lanes[i] ?? emptyLane(share), shifts.setMs - setMs);
        const [own, more] = divide(byLane.get(keyOf(share)) ?? [], share.fresh);
        const hasMore = left.freshDueAt !== null && left.freshDueAt <= now;
        this.#prefetched.add(share, toOwn(more, life), hasMore);
        queue.claimed(share, loadOf(own), this.#withPrefetched(left, now));
        return toOwn(own, life);
      });
      suspend(claimed.suspended.filter((accountId) => !resumed.has(accountId)));
      started.forEach(start);
    } finally {
      this.#isClaiming = false;
    }
    this.pump();
  }

  // One lane at least has a row that cannot be claimed. Each comes back at a time of its own, and so mostly alone.
  #putOff(shares: readonly LaneShare[]): void {
    const { queue, clock } = this.#deps;
    const now = clock.now();
    shares.forEach((share, i) => {
      const dueAt = now + (shares.length === 1 ? PUT_OFF_MS : (i + 1) * APART_MS);
      const left = { ...emptyLane(share), freshDueAt: dueAt, retryDueAt: dueAt };
      queue.claimed(share, loadOf([]), left);
    });
  }
}

/** Separates the first attempts beyond a number of slots from all others. */
function divide(
  attempts: readonly ClaimedAttempt[],
  slots: number,
): readonly [readonly ClaimedAttempt[], readonly ClaimedAttempt[]] {
  let fresh = 0;
  const isBeyond = ({ retry }: ClaimedAttempt): boolean => retry === 0 && ++fresh > slots;
  const { own = [], more = [] } = Object.groupBy(attempts, (each) =>
    isBeyond(each) ? "more" : "own",
  );
  return [own, more];
}

function toOwn(attempts: readonly ClaimedAttempt[], life: string): readonly OwnAttempt[] {
  return attempts.map((attempt) => ({ attempt, life }));
}

function keyOf({ accountId, host }: LaneRef): string {
  return `${accountId} ${host}`;
}

/** A lane after the wall clock was set by so many milliseconds. */
function movedLane({ freshDueAt, retryDueAt, ...lane }: Lane, byMs: number): Lane {
  const moved = (dueAt: number | null): number | null => (dueAt === null ? null : dueAt + byMs);
  return { ...lane, freshDueAt: moved(freshDueAt), retryDueAt: moved(retryDueAt) };
}

// About what the busiest lane sends while a claim is committed.
const LANE_MAX = 32;
const ALL_MAX = 256;
const BYTES_MAX = 8 * 1024 * 1024;

/**
 * First attempts that were claimed before their lane had a slot for them. A lane with a backlog then fills a slot at the
 * moment when it is free; otherwise the slot waits for a claim's commit, which takes as long as a quick receiver. There
 * are few of them: no other node reads what waits here, and a crash makes it `interrupted`.
 */
class Prefetched {
  readonly #queue: FairQueue;
  readonly #lanes = new Map<
    string,
    {
      readonly ref: LaneRef;
      readonly waiting: OwnAttempt[];
      /** Whether the store had more that were due at the last claim. */
      readonly hasMore: boolean;
    }
  >();
  #size = 0;
  #bytes = 0;

  constructor(queue: FairQueue) {
    this.#queue = queue;
  }

  get isEmpty(): boolean {
    return this.#size === 0;
  }

  /** The shares of a claim, with the attempts that may be prefetched for each lane. */
  withRoom(shares: readonly LaneShare[]): readonly LaneShare[] {
    let left = this.#bytes >= BYTES_MAX ? 0 : ALL_MAX - this.#size;
    return shares.map((share) => {
      const room = Math.max(0, Math.min(left, this.#maxOf(share) - this.#waiting(share)));
      left -= room;
      return { ...share, fresh: share.fresh + room };
    });
  }

  /** Whether a claim is worth its while that brings a lane nothing but what waits here. */
  isRunningOut(ref: LaneRef): boolean {
    const hasMore = this.#lanes.get(keyOf(ref))?.hasMore === true;
    return hasMore && this.#waiting(ref) <= this.#maxOf(ref) / 2;
  }

  add(ref: LaneRef, attempts: readonly OwnAttempt[], hasMore: boolean): void {
    const key = keyOf(ref);
    const waiting = [...(this.#lanes.get(key)?.waiting ?? []), ...attempts];
    this.#count(attempts, 1);
    if (waiting.length > 0) this.#lanes.set(key, { ref, waiting, hasMore });
  }

  /** Takes out up to `max` attempts of a lane, in their order. */
  take(ref: LaneRef, max: number): readonly OwnAttempt[] {
    const key = keyOf(ref);
    const lane = this.#lanes.get(key);
    if (lane === undefined) return [];
    const taken = lane.waiting.splice(0, max);
    this.#count(taken, -1);
    if (lane.waiting.length === 0) this.#lanes.delete(key);
    return taken;
  }

  has(ref: LaneRef): boolean {
    return this.#lanes.has(keyOf(ref));
  }

  takeAll(isMeant: (ref: LaneRef) => boolean): readonly OwnAttempt[] {
    const lanes = [...this.#lanes.values()].filter(({ ref }) => isMeant(ref));
    return lanes.flatMap(({ ref }) => this.take(ref, Infinity));
  }

  #maxOf(ref: LaneRef): number {
    return Math.min(LANE_MAX, this.#queue.prefetchMax(ref));
  }

  #waiting(ref: LaneRef): number {
    return this.#lanes.get(keyOf(ref))?.waiting.length ?? 0;
  }

  #count(attempts: readonly OwnAttempt[], sign: 1 | -1): void {
    this.#size += sign * attempts.length;
    this.#bytes += sign * loadOf(attempts.map(({ attempt }) => attempt)).bytes;
  }
}
