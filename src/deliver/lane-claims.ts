import {
  requireMember,
  type Cluster,
  type Lane,
  type LaneShare,
  type Store,
} from "../store/store.ts";
import { classOf, keyOf, loadOf, movedLane, nothingLeft } from "./claimed-load.ts";
import type { Lanes } from "./lanes.ts";
import type { LoopDeps } from "./loop.ts";
import { persist, type PersistDeps } from "./persist.ts";
import { ReadyAttempts, type ReadyAttempt } from "./ready-attempts.ts";
import type { Steps } from "./steps.ts";
import type { TimeShifts } from "./time-shifts.ts";

export interface LaneClaimsDeps extends PersistDeps, Pick<LoopDeps, "failed"> {
  readonly cluster: Pick<Cluster, "self" | "isMember">;
  readonly store: Pick<Store, "claimAttempts">;
  readonly lanes: Lanes;
  readonly shifts: TimeShifts;
  /** Counts the claims. */
  readonly steps: Steps;
  /** Sends an attempt that has got a place. */
  readonly start: (attempt: ReadyAttempt) => void;
  /** Gets the accounts that a claim found disabled; then {@link LaneClaims.takeBack} is due, whatever they are. */
  readonly hold: (accountIds: readonly number[]) => void;
}

// The most lanes that wait for the claim after the one under way, which bounds its transaction with those that it takes.
const WAITING_LANES_MAX = 16;

// The engine looks once a second for what is due.
const APART_MS = 1000;
const PUT_OFF_MS = 60_000;

/**
 * Fills the places of {@link Lanes} with claimed attempts, one claim at a time. A lane with a backlog fills them at once
 * from what the last claim brought beyond its places; see {@link ReadyAttempts}.
 */
export class LaneClaims {
  readonly #deps: LaneClaimsDeps;
  readonly #ready: ReadyAttempts;
  /** The shares of the next claim, by lane. */
  readonly #shares = new Map<string, LaneShare>();
  #isClaiming = false;
  #isDraining = false;
  /** Accounts that were resumed since the last claim began: what the claim says about them is no longer true. */
  #resumed = new Set<number>();

  constructor(deps: LaneClaimsDeps) {
    this.#deps = deps;
    this.#ready = new ReadyAttempts((lane) => deps.lanes.aheadMax(lane));
  }

  /** Starts whatever is due and has room. */
  pump(): void {
    // Asked first: it may tell that the clock was set.
    const now = this.#deps.clock.now();
    const { lanes, shifts, steps, cluster, failed } = this.#deps;
    if (shifts.isUnderWay || !cluster.isMember()) return;
    if (this.#mayTake()) for (const share of lanes.take(now)) this.#give(share, now);
    if (this.#isDraining || this.#isClaiming || this.#shares.size === 0) return;
    const shares = [...this.#shares.values()];
    this.#shares.clear();
    this.#isClaiming = true;
    void steps.track(this.#claim(shares).catch(failed));
  }

  /** Tells that an account is not held any more. */
  resume(accountId: number): void {
    this.#resumed.add(accountId);
  }

  /** Takes out what is ready of lanes that are closed, which is in flight on disk. */
  takeBack(): readonly ReadyAttempt[] {
    return this.#ready.takeAll((lane) => this.#deps.lanes.isClosed(lane));
  }

  /** Takes out all that is ready. */
  takeAll(): readonly ReadyAttempt[] {
    return this.#ready.takeAll(() => true);
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  /** Claims no more; what is ready is started. */
  drain(): void {
    this.#isDraining = true;
  }

  // While a claim is under way, places for which nothing is ready are left to those who have a turn at its end.
  #mayTake(): boolean {
    if (this.#ready.isEmpty) return !this.#isDraining && !this.#isClaiming;
    return this.#shares.size < WAITING_LANES_MAX;
  }

  /** Starts what is ready for these places, and leaves the others to the next claim. */
  #give(share: LaneShare, now: number): void {
    const { lanes, start } = this.#deps;
    const ready = this.#ready.take(share, share.fresh);
    if (ready.length > 0) {
      const load = loadOf(ready.map(({ attempt }) => attempt));
      const left = this.#withReady(nothingLeft(share), now);
      lanes.claimed({ ...share, fresh: ready.length, retries: 0 }, { ...load, left });
      ready.forEach(start);
    }
    const rest = { ...share, fresh: share.fresh - ready.length };
    const hasRoom = rest.fresh + rest.retries > 0;
    // Nobody else remembers that more became due while something was ready.
    const isEmptied = ready.length > 0 && !this.#ready.has(share);
    if (this.#isDraining) lanes.claimed(rest, { ...loadOf([]), left: nothingLeft(share) });
    else if (hasRoom || isEmptied || this.#ready.isRunningOut(share)) this.#ask(rest);
  }

  #ask({ accountId, host, fresh, retries }: LaneShare): void {
    const key = keyOf({ accountId, host });
    const before = this.#shares.get(key) ?? { fresh: 0, retries: 0 };
    const sum = { fresh: before.fresh + fresh, retries: before.retries + retries };
    this.#shares.set(key, { accountId, host, ...sum });
  }

  /** The lane, where something of it is ready with that as due. */
  #withReady(lane: Lane, now: number): Lane {
    return this.#ready.has(lane) ? { ...lane, freshDueAt: now } : lane;
  }

  async #claim(shares: readonly LaneShare[]): Promise<void> {
    const { store, clock, cluster, shifts, lanes, start, hold } = this.#deps;
    const resumed = new Set<number>();
    this.#resumed = resumed;
    const asked = this.#askedFor(shares);
    try {
      let setMs = 0;
      let life = cluster.self;
      const claim = (): ReturnType<Store["claimAttempts"]> => {
        const now = clock.now();
        setMs = shifts.setMs;
        requireMember(cluster);
        life = cluster.self;
        return store.claimAttempts({ lanes: asked, now });
      };
      const claimed = await persist(claim, this.#deps).catch((error: unknown) => {
        this.#putOff(shares);
        throw error;
      });
      const now = clock.now();
      const byLane = Map.groupBy(claimed.attempts, keyOf);
      const started = shares.flatMap((share, i) => {
        const ofLane = (byLane.get(keyOf(share)) ?? []).map((attempt) => ({ attempt, life }));
        // The store answered in the time of the clock as it was then.
        const left = movedLane(claimed.lanes[i] ?? nothingLeft(share), shifts.setMs - setMs);
        const mine = this.#keepBeyond(share, { ofLane, left, now });
        const load = loadOf(mine.map(({ attempt }) => attempt));
        lanes.claimed(share, { ...load, left: this.#withReady(left, now) });
        return mine;
      });
      hold(claimed.held.filter((accountId) => !resumed.has(accountId)));
      started.forEach(start);
    } finally {
      this.#isClaiming = false;
    }
    this.pump();
  }

  // One lane at least has a row that cannot be claimed. Each comes back at a time of its own, and so mostly alone.
  #putOff(shares: readonly LaneShare[]): void {
    const { lanes, clock } = this.#deps;
    const now = clock.now();
    shares.forEach((share, i) => {
      const dueAt = now + (shares.length === 1 ? PUT_OFF_MS : (i + 1) * APART_MS);
      const left = { ...nothingLeft(share), freshDueAt: dueAt, retryDueAt: dueAt };
      lanes.claimed(share, { ...loadOf([]), left });
    });
  }

  /** The shares, with what may be claimed beyond the places. */
  #askedFor(shares: readonly LaneShare[]): readonly LaneShare[] {
    const rooms = this.#ready.rooms(shares);
    return shares.map((share, i) => ({ ...share, fresh: share.fresh + (rooms[i] ?? 0) }));
  }

  /** Keeps the attempts for which the share has no place, and answers the others. */
  #keepBeyond(
    share: LaneShare,
    claim: { readonly ofLane: readonly ReadyAttempt[]; readonly left: Lane; readonly now: number },
  ): readonly ReadyAttempt[] {
    const { ofLane, left, now } = claim;
    const fresh = ofLane.filter(({ attempt }) => classOf(attempt) === "fresh");
    const ready = fresh.slice(share.fresh);
    const hasMore = left.freshDueAt !== null && left.freshDueAt <= now;
    this.#ready.add(share, { ready, hasMore });
    if (ready.length === 0) return ofLane;
    const kept = new Set(ready);
    return ofLane.filter((attempt) => !kept.has(attempt));
  }
}
