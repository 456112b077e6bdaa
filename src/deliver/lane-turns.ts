import type { LaneRef, LaneShare } from "../store/store.ts";
import {
  ATTEMPT_CLASSES,
  Holding,
  isFullOfBytes,
  type AttemptClass,
  type HostPlaces,
  type LaneStanding,
} from "./lane-places.ts";
import { NEW_ENTRY, RankHeap, type HeapEntry } from "./rank-heap.ts";

/** An account with something to send. */
export interface AccountState {
  readonly id: number;
  readonly lanes: Map<string, LaneState>;
  readonly holding: Holding;
  /** Its turns: one in each of the groups. */
  readonly turns: readonly AccountTurn[];
}

/** A host that one account or many send to. */
export class HostState implements QueuePlace {
  readonly host: string;
  /** Its lanes, one for each account. */
  lanes = 0;
  inFlight = 0;
  places: HostPlaces;
  /** Due queues without a place, those of the lane that holds least first, then by turn. */
  readonly #waiting = new RankHeap<LaneQueue>();

  constructor(host: string, places: HostPlaces) {
    this.host = host;
    this.places = places;
  }

  get first(): LaneQueue | undefined {
    return this.#waiting.first;
  }

  put(queue: LaneQueue): void {
    queue.weight = queue.lane.inFlight;
    this.#waiting.put(queue);
  }

  remove(queue: LaneQueue): void {
    this.#waiting.remove(queue);
  }
}

/** The queue of an account's attempts to one host. */
export class LaneState implements LaneStanding {
  readonly account: AccountState;
  readonly host: HostState;
  readonly fresh: LaneQueue;
  readonly retries: LaneQueue;
  /** The load of its attempts in flight. */
  readonly load = { fresh: 0, retries: 0, bytes: 0 };
  /** True when its host answered its account, or failed quickly, the last time. */
  isProven: boolean;
  /** Places that were given while both classes were due: every fourth is for a retry. */
  turns = 0;

  constructor(lane: Pick<LaneState, "account" | "host" | "isProven">) {
    this.account = lane.account;
    this.host = lane.host;
    this.isProven = lane.isProven;
    this.fresh = this.#newQueue("fresh");
    this.retries = this.#newQueue("retries");
  }

  get inFlight(): number {
    return this.load.fresh + this.load.retries;
  }

  get isIdle(): boolean {
    return this.inFlight === 0;
  }

  get isEmpty(): boolean {
    return this.fresh.dueAt === null && this.retries.dueAt === null && this.isIdle;
  }

  #newQueue(of: AttemptClass): LaneQueue {
    return { lane: this, class: of, dueAt: null, place: null, ...NEW_ENTRY };
  }
}

/** The lane as the store knows it. */
export function refOf({ account, host }: LaneState): LaneRef {
  return { accountId: account.id, host: host.host };
}

/** The attempts of one class in a lane. Its rank is its due time while that is later, and its turn while it is due. */
export interface LaneQueue extends HeapEntry {
  readonly lane: LaneState;
  readonly class: AttemptClass;
  /** When its earliest attempt is due; null when none is known. */
  dueAt: number | null;
  place: QueuePlace | null;
}

/** A claim in the making. */
export interface OpenTake {
  readonly shares: Map<LaneState, LaneShare>;
  readonly lanesMax: number;
}

/** A place where a queue can be; it is in one place at a time. */
export interface QueuePlace {
  put(queue: LaneQueue): void;
  remove(queue: LaneQueue): void;
}

/** Due queues that get places by the same rule. */
export interface DueGroup extends LaneStanding {
  readonly class: AttemptClass;
  /**
   * Those that hold least come first, then by turn: when the first has no room, no other has. So each account has as
   * many places as any other that wants them, however many lanes it has, and a new account is next.
   */
  readonly accounts: RankHeap<AccountTurn>;
}

/** The due queues of an account in a group. Their turns come one after the other, and so do the account's. */
export class AccountTurn implements HeapEntry, QueuePlace {
  readonly group: DueGroup;
  /** The load that its account holds. */
  readonly holding: Holding;
  readonly #queues = new RankHeap<LaneQueue>();
  /** The places that its account holds, of the kind that the group gives. */
  weight = 0;
  rank = 0;
  heapIndex = -1;
  #lastTurn = 0;

  constructor(group: DueGroup, holding: Holding) {
    this.group = group;
    this.holding = holding;
  }

  get first(): LaneQueue | undefined {
    return this.#queues.first;
  }

  /**
   * True when its turn comes before that of another group. Within one account, the lane that has been due longer comes
   * first.
   */
  isBefore(other: AccountTurn): boolean {
    const isSameAccount = other.holding === this.holding;
    const [own, others] = [this.first?.rank ?? Infinity, other.first?.rank ?? Infinity];
    return isSameAccount ? own < others : this.rank < other.rank;
  }

  put(queue: LaneQueue): void {
    this.#queues.put(queue);
    this.refresh();
  }

  remove(queue: LaneQueue): void {
    this.#queues.remove(queue);
    this.refresh();
  }

  /** Notes that the account has had a turn here: the others now come before it. */
  taken(turn: number): void {
    this.#lastTurn = turn;
    this.refresh();
  }

  /** Moves it to its right place. To be called when the account's load has changed. */
  refresh(): void {
    const { accounts } = this.group;
    const { first } = this.#queues;
    if (first === undefined || isFullOfBytes(this.holding, this.group)) {
      accounts.remove(this);
      return;
    }
    this.weight = this.holding.placesOf(this.group.class, this.group);
    this.rank = Math.max(first.rank, this.#lastTurn);
    accounts.put(this);
  }
}

/** A group for each class and standing. */
export function newDueGroups(): readonly DueGroup[] {
  const standings = [true, false].flatMap((isIdle) =>
    [true, false].map((isProven) => ({ isIdle, isProven })),
  );
  return ATTEMPT_CLASSES.flatMap((of) =>
    standings.map((standing) => ({ ...standing, class: of, accounts: new RankHeap() })),
  );
}

/** An account without anything yet. */
export function newAccount(id: number, groups: readonly DueGroup[]): AccountState {
  const holding = new Holding();
  const turns = groups.map((group) => new AccountTurn(group, holding));
  return { id, lanes: new Map(), holding, turns };
}

/** The only function that moves a queue, or updates its rank in its place. */
export function move(queue: LaneQueue, place: QueuePlace | null): void {
  if (queue.place !== place) queue.place?.remove(queue);
  queue.place = place;
  queue.weight = 0;
  place?.put(queue);
}
