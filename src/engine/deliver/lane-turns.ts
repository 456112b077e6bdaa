import { RankHeap, type HeapEntry } from "../lease/rank-heap.ts";
import {
  ATTEMPT_CLASSES,
  Holding,
  isFullOfBytes,
  type AttemptClass,
  type LaneStanding,
} from "./lane-places.ts";

/** An account with something to send. */
export interface AccountState {
  readonly id: number;
  readonly lanes: Map<string, LaneState>;
  readonly holding: Holding;
  /** Where it takes its turns: one for each of the groups. */
  readonly turns: readonly AccountTurn[];
}

/** A host that something is sent to, by one account or by many. */
export class HostState implements QueuePlace {
  readonly host: string;
  /** Its lanes, one for each account. */
  lanes = 0;
  inFlight = 0;
  /** Due queues for which there is no place, those of the lane that holds least first, then by turn. */
  readonly #waiting = new RankHeap<LaneQueue>();

  constructor(host: string) {
    this.host = host;
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

/** An account's own way to a host. */
export class LaneState {
  readonly account: AccountState;
  readonly host: HostState;
  readonly fresh: LaneQueue;
  readonly retries: LaneQueue;
  /** What its attempts in flight hold. */
  readonly load = { fresh: 0, retries: 0, bytes: 0 };
  /** Its host answered its account, or failed soon, the last time. */
  isProven: boolean;
  /** Places given while both classes were due: every fourth is for a retry. */
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

  get isEmpty(): boolean {
    return this.fresh.dueAt === null && this.retries.dueAt === null && this.inFlight === 0;
  }

  #newQueue(of: AttemptClass): LaneQueue {
    return { lane: this, class: of, dueAt: null, place: null, weight: 0, rank: 0, heapIndex: -1 };
  }
}

/** What a lane has of one class. Its rank is its due time while it is later, its turn while it is due. */
export interface LaneQueue extends HeapEntry {
  readonly lane: LaneState;
  readonly class: AttemptClass;
  /** When its earliest is due; null when none is known. */
  dueAt: number | null;
  place: QueuePlace | null;
}

/** Where a queue can be; it is in one place at a time. */
export interface QueuePlace {
  put(queue: LaneQueue): void;
  remove(queue: LaneQueue): void;
}

/** Due queues that the same rule gives places. */
export interface DueGroup extends LaneStanding {
  readonly class: AttemptClass;
  readonly index: number;
  /**
   * Those that hold least first, then by turn: where the first has no room, no other has. So each account has as many
   * places as any other that wants them, however many lanes it has, and one that comes new is next.
   */
  readonly accounts: RankHeap<AccountTurn>;
}

/** The due queues that an account has in a group. Their turns come one after the other, and the account's with them. */
export class AccountTurn implements HeapEntry, QueuePlace {
  readonly group: DueGroup;
  /** What its account holds. */
  readonly holding: Holding;
  readonly #queues = new RankHeap<LaneQueue>();
  /** The places that its account holds of the kind that the group gives. */
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

  /** True when its turn is sooner than one of another group: of the same account that of the lane that is due longer. */
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

  /** Notes that the account has had a turn here: the others are before it. */
  taken(turn: number): void {
    this.#lastTurn = turn;
    this.refresh();
  }

  /** Finds its place again. To be called when what the account holds has changed. */
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
    standings.map((standing) => ({ ...standing, class: of })),
  ).map((group, index) => ({ ...group, index, accounts: new RankHeap<AccountTurn>() }));
}

/** An account that has nothing yet. */
export function newAccount(id: number, groups: readonly DueGroup[]): AccountState {
  const holding = new Holding();
  const turns = groups.map((group) => new AccountTurn(group, holding));
  return { id, lanes: new Map(), holding, turns };
}

/** The one function that moves a queue, or finds its place again where it is. */
export function move(queue: LaneQueue, place: QueuePlace | null): void {
  if (queue.place !== place) queue.place?.remove(queue);
  queue.place = place;
  queue.weight = 0;
  place?.put(queue);
}
