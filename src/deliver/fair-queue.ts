import type { LaneGauge } from "../domain/observer.ts";
import { scopeKey, scopesOf, type PauseScope } from "../domain/webhook/delivery-pause.ts";
import { ALONE, shareOfAll, type NodeView } from "../domain/webhook/delivery.ts";
import type { Lane, LaneRef, LaneShare } from "../store/store.ts";
import {
  AccountState,
  AccountTurn,
  HostState,
  LaneState,
  newDueGroups,
  RankHeap,
  type LaneQueue,
} from "./lanes.ts";
import {
  Slots,
  slotsAt,
  type AttemptClass,
  type HostSlots,
  type Load,
  type SlotLimits,
} from "./slots.ts";

/** How an attempt held its slot: `quick` gave it back soon, `slow` was waited for, `unknown` says nothing. */
export type Pace = "quick" | "slow" | "unknown";

/** The most healthy lanes that are remembered; a forgotten lane is probing again. */
export const HEALTHY_MAX = 10_000;
// The most lanes in one claim, which bounds the length of its transaction. Some are reserved for retries: otherwise first
// attempts could fill every claim, and retries would never have a turn.
const LANES_PER_CLAIM_MAX = 64;
const FRESH_LANES_PER_CLAIM_MAX = 48;
const RETRY_TURN = 4;
// How many waiting queues are tried when a slot at their host becomes free. More than one, because the first queue may
// have to wait for its account. Each take tries as many more.
const TRIED_PER_HOST_MAX = 8;

/**
 * The lanes: a lane is the queue of one account's attempts to one host. It knows how many of its attempts are in
 * flight, and when its next first attempt and its next retry are due. Each of the two queues is in one list at most:
 *
 *     none → later (by due time) → due (by account, then by turn) ⇄ none (its lane is full)
 *                                                                 ⇄ waiting (its host is full)
 *
 * First attempts go before retries. The account that holds the fewest slots goes first; of equal accounts the one whose
 * turn was longest ago; the lanes of an account take turns. So an account with a million attempts or thousands of hosts
 * gets no more slots than an account with a few. No account may take all slots that are left, in all or at a host: an
 * account that comes later finds a slot although another account's attempts hang. Attempts that are not due cost nothing:
 * the store has them, and a queue knows only its earliest. A queue that cannot start is not visited, except for a few
 * queues whose host is full when their turn comes.
 *
 * A lane is healthy if its host responded, or failed quickly, the last time. Only the account's own attempts decide: an
 * account whose URLs hang at a host does not slow down an account whose URLs at the same host respond.
 */
export class FairQueue {
  readonly #limits: SlotLimits;
  readonly #slots: Slots;
  readonly #accounts = new Map<number, AccountState>();
  readonly #hosts = new Map<string, HostState>();
  readonly #later = new RankHeap<LaneQueue>();
  readonly #groups = newDueGroups();
  /** Hosts that have a free slot again, with queues that wait for it. */
  readonly #freed = new Set<HostState>();
  /** The accounts with healthy lanes, those with the most first. */
  readonly #healthiest = new RankHeap<AccountState>();
  readonly #suspended = new Set<number>();
  #pauses: ReadonlyMap<string, PauseScope> = new Map();
  #view = ALONE;
  #lanes = 0;
  #healthy = 0;
  #lastTurn = 0;

  constructor(limits: SlotLimits) {
    this.#limits = limits;
    this.#slots = new Slots(limits.inFlightMax);
  }

  get inFlight(): number {
    return this.#slots.inFlight;
  }

  /** Its lanes are those with something scheduled or in flight. */
  get gauge(): LaneGauge {
    const [heldAccounts, pauses] = [this.#suspended.size, this.#pauses.size];
    return { lanes: this.#lanes, underWay: this.inFlight, heldAccounts, pauses };
  }

  /** True if nothing is in flight and nothing is due at `now`. */
  isIdle(now: number): boolean {
    this.#advance(now);
    const isDue = this.#groups.some(({ accounts }) => accounts.first !== undefined);
    return this.inFlight === 0 && !isDue && this.#freed.size === 0;
  }

  /** Notes that a lane has an attempt due at a time; ignores it for a closed lane. */
  noteDue(ref: LaneRef, of: AttemptClass, dueAt: number): void {
    if (this.isClosed(ref)) return;
    const queue = this.#laneOf(ref)[of];
    if (queue.dueAt !== null && queue.dueAt <= dueAt) return;
    queue.dueAt = dueAt;
    this.#place(queue);
  }

  note({ freshDueAt, retryDueAt, ...ref }: Lane): void {
    if (freshDueAt !== null) this.noteDue(ref, "fresh", freshDueAt);
    if (retryDueAt !== null) this.noteDue(ref, "retries", retryDueAt);
  }

  /** True if the lane starts nothing: it is paused, its account is suspended, or other nodes have its host. */
  isClosed(ref: LaneRef): boolean {
    return this.#suspended.has(ref.accountId) || this.#isPaused(ref) || this.#isLeft(ref.host);
  }

  /** How many attempts of a lane may be prefetched; 0 if its slots are held for long. */
  prefetchMax(ref: LaneRef): number {
    const isHealthy = this.#accounts.get(ref.accountId)?.healthy.has(ref.host) === true;
    return isHealthy && !this.isClosed(ref) ? this.#slotsOf(ref.host).all : 0;
  }

  /** Forgets what an account has scheduled and ignores more until {@link resume}. Attempts in flight go on. */
  suspend(accountId: number): void {
    this.#suspended.add(accountId);
    const lanes = [...(this.#accounts.get(accountId)?.lanes.values() ?? [])];
    for (const lane of lanes) this.#forget(lane);
  }

  /** Ends {@link suspend}; what the account has scheduled must then be noted again. */
  resume(accountId: number): void {
    this.#suspended.delete(accountId);
  }

  /** Closes the lanes of the given scopes. Returns the scopes that open again: their attempts must be noted again. */
  pauseOnly(scopes: readonly PauseScope[]): readonly PauseScope[] {
    const before = this.#pauses;
    this.#pauses = new Map(scopes.map((scope) => [scopeKey(scope), scope]));
    for (const lane of this.#allLanes()) if (this.#isPaused(lane.ref)) this.#forget(lane);
    return [...before].flatMap(([key, scope]) => (this.#pauses.has(key) ? [] : scope));
  }

  /** Divides the slots among these nodes. The attempts to a host without a share are forgotten until it has one. */
  divide(view: NodeView): void {
    this.#view = view;
    this.#slots.max = shareOfAll(this.#limits.inFlightMax, view);
    for (const host of this.#hosts.values()) host.slots = this.#slotsAt(host.host);
    for (const lane of this.#allLanes()) {
      if (lane.host.slots.all === 0) this.#forget(lane);
      else this.#refresh(lane);
    }
  }

  /** Moves every due time by `by` milliseconds: the wall clock was set by as much. */
  shift(by: number): void {
    const queues = this.#allLanes().flatMap(({ fresh, retries }) => [fresh, retries]);
    // All are taken out before the first is changed: a heap with old and new times would be out of order.
    for (const queue of queues) queue.move(null);
    for (const queue of queues) if (queue.dueAt !== null) queue.dueAt += by;
    for (const queue of queues) this.#place(queue);
  }

  /** The lanes to claim from now; their slots count as in flight. {@link claimed} must be called for each share. */
  take(now: number): LaneShare[] {
    this.#advance(now);
    for (const host of this.#freed) this.#tryAgain(host);
    const shares = new Map<LaneState, LaneShare>();
    this.#giveTurns("fresh", shares, FRESH_LANES_PER_CLAIM_MAX);
    this.#giveTurns("retries", shares, LANES_PER_CLAIM_MAX);
    return [...shares.values()];
  }

  /** Notes how many attempts of a share were started, and what its lane has left. */
  claimed(share: LaneShare, { fresh, retries, bytes }: Load, left: Lane): void {
    this.note(left);
    const more = { fresh: fresh - share.fresh, retries: retries - share.retries, bytes };
    this.#add(this.#laneOf(share), more);
  }

  /** Frees the slots of an ended attempt. */
  ended(ref: LaneRef, load: Load, pace: Pace): void {
    if (pace !== "unknown") this.#setHealthy(ref, pace === "quick");
    const { fresh, retries, bytes } = load;
    this.#add(this.#laneOf(ref), { fresh: -fresh, retries: -retries, bytes: -bytes });
  }

  /** Notes that a host responded to an account the last time, as far as is known. */
  noteHealthy(ref: LaneRef): void {
    this.#setHealthy(ref, true);
  }

  #giveTurns(of: AttemptClass, shares: Map<LaneState, LaneShare>, lanesMax: number): void {
    while (shares.size < lanesMax) {
      const turn = this.#nextTurn(of);
      const queue = turn?.first;
      if (turn === undefined || queue === undefined) return;
      if (queue.lane.hostRoom === 0) queue.move(queue.lane.host);
      else this.#giveTurn(queue, turn, shares);
    }
  }

  #nextTurn(of: AttemptClass): AccountTurn | undefined {
    let next: AccountTurn | undefined;
    for (const group of this.#groups) {
      const { first: turn } = group.accounts;
      if (group.class !== of || turn === undefined) continue;
      const isSooner = next === undefined || turn.isBefore(next);
      if (isSooner && this.#slots.room(of, group, turn.usage) > 0) next = turn;
    }
    return next;
  }

  #giveTurn(
    { lane, class: of }: LaneQueue,
    turn: AccountTurn,
    shares: Map<LaneState, LaneShare>,
  ): void {
    const room = this.#slots.room(of, lane, lane.account.usage);
    // One attempt at a time: hosts that never respond must not delay the first attempt to another host.
    const max = lane.isHealthy ? Infinity : 1;
    const slots = Math.min(room, lane.room, lane.hostRoom, max);
    const retries = of === "retries" ? slots : this.#retryTurns(lane, slots);
    const fresh = slots - retries;
    if (fresh > 0) lane.fresh.dueAt = null;
    if (retries > 0) lane.retries.dueAt = null;
    const before = shares.get(lane) ?? { fresh: 0, retries: 0 };
    const sum = { fresh: before.fresh + fresh, retries: before.retries + retries };
    shares.set(lane, { ...lane.ref, ...sum });
    turn.taken(++this.#lastTurn);
    this.#add(lane, { fresh, retries, bytes: 0 });
  }

  // Leaves every fourth of the slots that a lane gets while both classes are due to a retry.
  #retryTurns(lane: LaneState, slots: number): number {
    if (!this.#isDue(lane.retries)) return 0;
    const turns = lane.turns + slots;
    lane.turns = turns % RETRY_TURN;
    const room = this.#slots.room("retries", lane, lane.account.usage);
    return Math.min(Math.floor(turns / RETRY_TURN), room);
  }

  #slotsAt(host: string): HostSlots {
    return slotsAt(host, this.#limits.inFlightPerHostMax, this.#view);
  }

  #slotsOf(host: string): HostSlots {
    return this.#hosts.get(host)?.slots ?? this.#slotsAt(host);
  }

  /** True for a host of which this node has no share. */
  #isLeft(host: string): boolean {
    if (this.#view.members.length <= this.#limits.inFlightPerHostMax) return false;
    return this.#slotsOf(host).all === 0;
  }

  #isPaused(lane: LaneRef): boolean {
    if (this.#pauses.size === 0) return false;
    return scopesOf(lane).some((scope) => this.#pauses.has(scopeKey(scope)));
  }

  #allLanes(): readonly LaneState[] {
    return [...this.#accounts.values()].flatMap(({ lanes }) => [...lanes.values()]);
  }

  #accountOf(id: number): AccountState {
    const known = this.#accounts.get(id);
    if (known !== undefined) return known;
    const account = new AccountState(id);
    this.#accounts.set(id, account);
    return account;
  }

  #laneOf({ accountId, host: name }: LaneRef): LaneState {
    const account = this.#accountOf(accountId);
    const known = account.lanes.get(name);
    if (known !== undefined) return known;
    const host = this.#hosts.get(name) ?? new HostState(name, this.#slotsAt(name));
    const lane = new LaneState(account, host);
    if (account.lanes.size === 0)
      account.turns = this.#groups.map((group) => new AccountTurn(group, account.usage));
    this.#lanes++;
    host.lanes++;
    account.lanes.set(name, lane);
    this.#hosts.set(name, host);
    return lane;
  }

  #add(lane: LaneState, load: Load): void {
    const { account, host } = lane;
    const slots = load.fresh + load.retries;
    lane.load.add(load);
    host.inFlight += slots;
    this.#slots.used.add(load, lane);
    account.usage.add(load, lane);
    this.#refresh(lane);
    if (slots < 0 && host.first !== undefined) this.#freed.add(host);
    this.#dropEmpty(lane);
  }

  #forget(lane: LaneState): void {
    lane.fresh.dueAt = null;
    lane.retries.dueAt = null;
    this.#place(lane.fresh);
    this.#place(lane.retries);
    this.#dropEmpty(lane);
  }

  #dropEmpty(lane: LaneState): void {
    const { account, host } = lane;
    if (!lane.isEmpty) return;
    this.#lanes--;
    host.lanes--;
    account.lanes.delete(host.host);
    if (host.lanes === 0) this.#hosts.delete(host.host);
    if (account.lanes.size === 0) account.turns = [];
    this.#dropUnused(account);
  }

  #dropUnused({ id, lanes, healthy }: AccountState): void {
    if (lanes.size === 0 && healthy.size === 0) this.#accounts.delete(id);
  }

  // If too many lanes are healthy, the account with the most forgets its oldest: so an account with a million names makes
  // no other account's lanes probing.
  #setHealthy({ accountId, host }: LaneRef, isHealthy: boolean): void {
    const account = this.#accountOf(accountId);
    const wasHealthy = account.healthy.delete(host);
    if (isHealthy) account.healthy.add(host);
    if (wasHealthy !== isHealthy) this.#healthChanged(account, host, isHealthy);
    const most = this.#healthy > HEALTHY_MAX ? this.#healthiest.first : undefined;
    const [oldest] = most?.healthy ?? [];
    if (most !== undefined && oldest !== undefined)
      this.#setHealthy({ accountId: most.id, host: oldest }, false);
    this.#dropUnused(account);
  }

  #healthChanged(account: AccountState, host: string, isHealthy: boolean): void {
    this.#healthy += isHealthy ? 1 : -1;
    account.rank = -account.healthy.size;
    if (account.rank < 0) this.#healthiest.put(account);
    else this.#healthiest.remove(account);
    const lane = account.lanes.get(host);
    if (lane === undefined) return;
    lane.isHealthy = isHealthy;
    const sign = isHealthy ? -1 : 1;
    this.#slots.used.probing.add(lane.load, sign);
    account.usage.probing.add(lane.load, sign);
    this.#refresh(lane);
  }

  /** Moves a lane and its account to where they belong, after their load has changed. */
  #refresh(lane: LaneState): void {
    this.#place(lane.fresh);
    this.#place(lane.retries);
    for (const turn of lane.account.turns) turn.refresh();
  }

  // A due queue keeps its turn while its lane has room.
  #place(queue: LaneQueue): void {
    if (queue.dueAt === null || queue.lane.room === 0) return queue.move(null);
    if (this.#isDue(queue)) return this.#placeDue(queue);
    queue.rank = queue.dueAt;
    queue.move(this.#later);
  }

  #placeDue(queue: LaneQueue): void {
    queue.move(queue.lane.hostRoom === 0 ? queue.lane.host : queue.turn);
  }

  #isDue({ list }: LaneQueue): boolean {
    return list !== null && list !== this.#later;
  }

  // The waiting queues are in order: if the first may not have a slot, no other may.
  #tryAgain(host: HostState): void {
    for (let tried = 0; tried < TRIED_PER_HOST_MAX; tried++) {
      const { first } = host;
      if (first === undefined || first.lane.hostRoom === 0) {
        this.#freed.delete(host);
        return;
      }
      first.move(first.turn);
    }
  }

  #advance(now: number): void {
    for (let next = this.#later.first; next !== undefined; next = this.#later.first) {
      if (next.rank > now) return;
      next.rank = ++this.#lastTurn;
      this.#placeDue(next);
    }
  }
}
