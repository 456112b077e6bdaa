import type { PauseScope } from "../domain/webhook/delivery-pause.ts";
import { ALONE, shareOfAll, type NodeView } from "../domain/webhook/delivery.ts";
import type { Lane, LaneRef, LaneShare } from "../store/store.ts";
import type { EndedAttempt } from "./attempt-end.ts";
import type { ShareOutcome } from "./claimed-load.ts";
import { HeldLanes } from "./held-lanes.ts";
import {
  ATTEMPT_CLASSES,
  LanePlaces,
  placesAt,
  shareOfPlaces,
  type AttemptClass,
  type HostPlaces,
  type LaneLimits,
  type Load,
} from "./lane-places.ts";
import {
  HostState,
  LaneState,
  move,
  newAccount,
  newDueGroups,
  refOf,
  type AccountState,
  type AccountTurn,
  type LaneQueue,
  type OpenTake,
} from "./lane-turns.ts";
import { ProvenLanes } from "./proven-lanes.ts";
import { RankHeap } from "./rank-heap.ts";

// The most lanes in one claim, which bounds the length of its transaction. Some are left to retries: where more first
// attempts are due than a claim takes, they would never have a turn.
const LANES_PER_CLAIM_MAX = 64;
const FRESH_LANES_PER_CLAIM_MAX = 48;
const RETRY_TURN = 4;
// The most bytes of bodies in flight in one lane: a host that hangs must not hold all the memory for bodies.
const LANE_BYTES_MAX = 8 * 1024 * 1024;
// How many queues are tried again for a place that became free at a host that many accounts wait for. More than one,
// because the first may have to wait for its account; each take tries as many more.
const TRIED_PER_HOST_MAX = 8;

/**
 * A lane for each account and host with something to send: how many of its attempts are in flight and when its next
 * first attempt and its next retry are due. Each of these two queues is in exactly one place:
 *
 *     empty → later (by due time) → due (by account, then by turn) ⇄ held (its lane is full)
 *                                                                  ⇄ waiting (its host is full)
 *
 * First attempts go before retries. Of the accounts with something due the one that holds least goes first, of equal
 * ones the one whose turn was longest ago, and its lanes in turn: an account with a million attempts, or with thousands
 * of hosts, gets no more places than one with a few. Nobody may take all that is left, neither of the places nor of a
 * host's, so that an account that comes while another's attempts hang finds one. Attempts that are not due cost
 * nothing: what waits is in the store, and a queue remembers only its earliest. What cannot go is not looked at, but
 * for the few queues that find their host taken when it is their turn.
 */
export class Lanes {
  readonly #limits: LaneLimits;
  readonly #places: LanePlaces;
  readonly #accounts = new Map<number, AccountState>();
  readonly #hosts = new Map<string, HostState>();
  readonly #later = new RankHeap<LaneQueue>();
  readonly #groups = newDueGroups();
  readonly #proven = new ProvenLanes();
  /** Hosts that have a free place again for somebody who waits. */
  readonly #freed = new Set<HostState>();
  readonly #held = new HeldLanes();
  readonly held: Pick<HeldLanes, "accounts" | "pauses"> = this.#held;
  #view = ALONE;
  #lastTurn = 0;

  constructor(limits: LaneLimits) {
    this.#limits = limits;
    this.#places = new LanePlaces(limits.inFlightMax);
  }

  get inFlight(): number {
    return this.#places.inFlight;
  }

  /** The number of known lanes: those with something scheduled or in flight. */
  get size(): number {
    return [...this.#accounts.values()].reduce((sum, { lanes }) => sum + lanes.size, 0);
  }

  /** True when nothing is in flight and nothing is due at `now`. */
  isIdle(now: number): boolean {
    this.#advance(now);
    const isDue = this.#groups.some(({ accounts }) => accounts.first !== undefined);
    return this.inFlight === 0 && !isDue && this.#freed.size === 0;
  }

  /**
   * Notes that a lane has an attempt due at a time; ignores it for a lane that is held, and for a host of which this node
   * has no share.
   */
  noteDue(ref: LaneRef, due: { readonly class: AttemptClass; readonly dueAt: number }): void {
    if (this.isClosed(ref)) return;
    const queue = this.#laneOf(ref)[due.class];
    if (queue.dueAt !== null && queue.dueAt <= due.dueAt) return;
    queue.dueAt = due.dueAt;
    this.#place(queue);
  }

  /** Notes what a lane has scheduled. */
  note({ freshDueAt, retryDueAt, ...ref }: Lane): void {
    if (freshDueAt !== null) this.noteDue(ref, { class: "fresh", dueAt: freshDueAt });
    if (retryDueAt !== null) this.noteDue(ref, { class: "retries", dueAt: retryDueAt });
  }

  /** Notes that a host answered an account the last time, as far as is known. */
  noteProven(ref: LaneRef): void {
    this.#setProven(ref, true);
  }

  /** True for a lane of which nothing is started: it is held, or its host is left to others. */
  isClosed(ref: LaneRef): boolean {
    return this.#held.has(ref) || this.#isLeftToOthers(ref.host);
  }

  /** How many attempts of a lane may be claimed before it has places for them; none where a place is not given back soon. */
  aheadMax(ref: LaneRef): number {
    return this.#proven.has(ref) && !this.isClosed(ref) ? this.#placesOf(ref.host).all : 0;
  }

  /** Forgets what an account has scheduled and ignores more until {@link release}. Attempts in flight go on. */
  hold(accountId: number): void {
    this.#held.addAccount(accountId);
    for (const lane of [...(this.#accounts.get(accountId)?.lanes.values() ?? [])]) {
      this.#forget(lane);
    }
  }

  /** Ends {@link hold}; what the account has scheduled must then be noted again. */
  release(accountId: number): void {
    this.#held.deleteAccount(accountId);
  }

  /**
   * Forgets what the lanes of these scopes have scheduled and ignores more. Answers the scopes that are released by that:
   * what their lanes have scheduled must then be noted again.
   */
  pauseOnly(scopes: readonly PauseScope[]): readonly PauseScope[] {
    const released = this.#held.setScopes(scopes);
    for (const lane of this.#allLanes()) if (this.#held.has(refOf(lane))) this.#forget(lane);
    return released;
  }

  /**
   * Divides the places among these nodes. Attempts under way go on, also beyond the new share. What is scheduled at a
   * host of which nothing is left to this node is forgotten; at one of which it has a share again it must be noted.
   */
  divide(view: NodeView): void {
    this.#view = view;
    this.#places.max = shareOfAll(this.#limits.inFlightMax, view);
    for (const host of this.#hosts.values()) host.places = this.#placesAt(host.host);
    for (const lane of this.#allLanes()) {
      if (lane.host.places.all === 0) this.#forget(lane);
      else this.#refresh(lane);
    }
  }

  /** Moves every due time by `by` milliseconds: the wall clock was set by as much. */
  shift(by: number): void {
    const lanes = this.#allLanes();
    const queues = lanes.flatMap(({ fresh, retries }) => [fresh, retries]);
    // All are taken out before the first is changed: a heap with old and new times would be out of order.
    for (const queue of queues) move(queue, null);
    for (const queue of queues) if (queue.dueAt !== null) queue.dueAt += by;
    for (const lane of lanes) this.#placeBoth(lane);
  }

  /**
   * The lanes to claim from now, with how many attempts each may start; these count as in flight at once. To be
   * answered with {@link claimed} for each.
   */
  take(now: number): LaneShare[] {
    this.#advance(now);
    for (const host of this.#freed) this.#tryAgain(host);
    const shares = new Map<LaneState, LaneShare>();
    this.#giveTurns("fresh", { shares, lanesMax: FRESH_LANES_PER_CLAIM_MAX });
    this.#giveTurns("retries", { shares, lanesMax: LANES_PER_CLAIM_MAX });
    return [...shares.values()];
  }

  /** Notes the result of a share. */
  claimed(share: LaneShare, outcome: ShareOutcome): void {
    this.note(outcome.left);
    this.#add(this.#laneOf(share), {
      fresh: outcome.fresh - share.fresh,
      retries: outcome.retries - share.retries,
      bytes: outcome.bytes,
    });
  }

  /** Frees what an attempt held. */
  ended({ class: of, bytes, pace, ...ref }: EndedAttempt): void {
    if (pace !== "unknown") this.#setProven(ref, pace === "quick");
    this.#add(this.#laneOf(ref), { fresh: 0, retries: 0, [of]: -1, bytes: -bytes });
  }

  #giveTurns(of: AttemptClass, take: OpenTake): void {
    while (take.shares.size < take.lanesMax) {
      const turn = this.#nextTurn(of);
      const queue = turn?.first;
      if (turn === undefined || queue === undefined) return;
      if (this.#hostRoom(queue.lane) === 0) move(queue, queue.lane.host);
      else this.#giveTurn(queue, { turn, shares: take.shares });
    }
  }

  #nextTurn(of: AttemptClass): AccountTurn | undefined {
    let next: AccountTurn | undefined;
    for (const group of this.#groups) {
      const { first: turn } = group.accounts;
      if (group.class !== of || turn === undefined) continue;
      const isSooner = next === undefined || turn.isBefore(next);
      if (isSooner && this.#places.room(of, group, turn.holding) > 0) next = turn;
    }
    return next;
  }

  #giveTurn(
    { lane, class: of }: LaneQueue,
    to: { readonly turn: AccountTurn; readonly shares: Map<LaneState, LaneShare> },
  ): void {
    const room = this.#places.room(of, lane, lane.account.holding);
    // One at a time to a host that has not answered: hosts that never will must not go before one that is asked for the
    // first time.
    const turn = lane.isProven ? Infinity : 1;
    const places = Math.min(room, this.#laneRoom(lane), this.#hostRoom(lane), turn);
    const retries = of === "retries" ? places : this.#retryTurns(lane, places);
    const given = { fresh: places - retries, retries };
    for (const each of ATTEMPT_CLASSES) if (given[each] > 0) lane[each].dueAt = null;
    const share = to.shares.get(lane) ?? { ...refOf(lane), fresh: 0, retries: 0 };
    const fresh = share.fresh + given.fresh;
    to.shares.set(lane, { ...share, fresh, retries: share.retries + retries });
    to.turn.taken(++this.#lastTurn);
    this.#add(lane, { ...given, bytes: 0 });
  }

  // Leaves every fourth of the places that a lane gets while both classes are due to a retry.
  #retryTurns(lane: LaneState, places: number): number {
    if (!this.#isDue(lane.retries)) return 0;
    const turns = lane.turns + places;
    lane.turns = turns % RETRY_TURN;
    const room = this.#places.room("retries", lane, lane.account.holding);
    return Math.min(Math.floor(turns / RETRY_TURN), room);
  }

  #laneRoom(lane: LaneState): number {
    if (lane.load.bytes >= LANE_BYTES_MAX) return 0;
    const { all, unproven } = lane.host.places;
    return Math.max(0, (lane.isProven ? all : unproven) - lane.inFlight);
  }

  #hostRoom({ host, inFlight: held }: LaneState): number {
    return shareOfPlaces(host.places.all - host.inFlight, { held, isProven: true });
  }

  #placesAt(host: string): HostPlaces {
    return placesAt(host, this.#limits.inFlightPerHostMax, this.#view);
  }

  #placesOf(host: string): HostPlaces {
    return this.#hosts.get(host)?.places ?? this.#placesAt(host);
  }

  #isLeftToOthers(host: string): boolean {
    if (this.#view.members.length <= this.#limits.inFlightPerHostMax) return false;
    return this.#placesOf(host).all === 0;
  }

  #allLanes(): readonly LaneState[] {
    return [...this.#accounts.values()].flatMap(({ lanes }) => [...lanes.values()]);
  }

  #laneOf({ accountId, host: name }: LaneRef): LaneState {
    const account = this.#accounts.get(accountId) ?? newAccount(accountId, this.#groups);
    const known = account.lanes.get(name);
    if (known !== undefined) return known;
    const host = this.#hosts.get(name) ?? new HostState(name, this.#placesAt(name));
    const isProven = this.#proven.has({ accountId, host: name });
    const lane = new LaneState({ account, host, isProven });
    host.lanes++;
    account.lanes.set(name, lane);
    this.#hosts.set(name, host);
    this.#accounts.set(accountId, account);
    return lane;
  }

  #add(lane: LaneState, load: Load): void {
    const { account, host } = lane;
    lane.load.fresh += load.fresh;
    lane.load.retries += load.retries;
    lane.load.bytes += load.bytes;
    host.inFlight += load.fresh + load.retries;
    this.#places.taken.add(load, lane);
    account.holding.add(load, lane);
    this.#refresh(lane);
    if (load.fresh + load.retries < 0 && host.first !== undefined) this.#freed.add(host);
    this.#dropEmpty(lane);
  }

  #forget(lane: LaneState): void {
    lane.fresh.dueAt = null;
    lane.retries.dueAt = null;
    this.#placeBoth(lane);
    this.#dropEmpty(lane);
  }

  #dropEmpty(lane: LaneState): void {
    const { account, host } = lane;
    if (!lane.isEmpty) return;
    account.lanes.delete(host.host);
    host.lanes--;
    if (host.lanes === 0) this.#hosts.delete(host.host);
    if (account.lanes.size === 0) this.#accounts.delete(account.id);
  }

  #setProven(ref: LaneRef, isProven: boolean): void {
    const wasProven = this.#proven.has(ref);
    const forgotten = isProven ? this.#proven.add(ref) : null;
    if (!isProven) this.#proven.delete(ref);
    if (wasProven !== isProven) this.#recount(ref, isProven);
    if (forgotten !== null) this.#recount(forgotten, false);
  }

  #recount({ accountId, host }: LaneRef, isProven: boolean): void {
    const lane = this.#accounts.get(accountId)?.lanes.get(host);
    if (lane === undefined) return;
    lane.isProven = isProven;
    const sign = isProven ? -1 : 1;
    const { fresh, retries, bytes } = lane.load;
    const moved = { fresh: sign * fresh, retries: sign * retries, bytes: sign * bytes };
    this.#places.taken.addUnproven(moved);
    lane.account.holding.addUnproven(moved);
    this.#refresh(lane);
  }

  /** Moves a lane and its account to their right places, after their load has changed. */
  #refresh(lane: LaneState): void {
    this.#placeBoth(lane);
    for (const turn of lane.account.turns) turn.refresh();
  }

  #placeBoth(lane: LaneState): void {
    this.#place(lane.fresh);
    this.#place(lane.retries);
  }

  // A queue that is due keeps its turn while its lane has room.
  #place(queue: LaneQueue): void {
    const { lane } = queue;
    if (queue.dueAt === null || this.#laneRoom(lane) === 0) return move(queue, null);
    if (this.#isDue(queue)) return this.#placeDue(queue);
    move(queue, null);
    queue.rank = queue.dueAt;
    move(queue, this.#later);
  }

  #placeDue(queue: LaneQueue): void {
    const { lane } = queue;
    move(queue, this.#hostRoom(lane) === 0 ? lane.host : this.#turnOf(queue));
  }

  #isDue({ place }: LaneQueue): boolean {
    return place !== null && place !== this.#later;
  }

  #turnOf({ lane, class: of }: LaneQueue): AccountTurn | null {
    const { isIdle, isProven, account } = lane;
    const isIt = ({ group }: AccountTurn): boolean =>
      group.class === of && group.isIdle === isIdle && group.isProven === isProven;
    return account.turns.find(isIt) ?? null;
  }

  // Those that wait there hold more or less: when the first may not have a place, no other may.
  #tryAgain(host: HostState): void {
    for (let tried = 0; tried < TRIED_PER_HOST_MAX; tried++) {
      const { first } = host;
      if (first === undefined || this.#hostRoom(first.lane) === 0) {
        this.#freed.delete(host);
        return;
      }
      move(first, this.#turnOf(first));
    }
  }

  #advance(now: number): void {
    for (let next = this.#later.first; next !== undefined; next = this.#later.first) {
      if (next.rank > now) return;
      move(next, null);
      next.rank = ++this.#lastTurn;
      this.#placeDue(next);
    }
  }
}
