import type { LaneRef } from "../store/store.ts";
import {
  isFullOfBytes,
  LoadSum,
  shareOfSlots,
  Usage,
  type AttemptClass,
  type HostSlots,
  type Standing,
} from "./slots.ts";

/** An entry of a {@link RankHeap}. After a change of weight or rank in a heap, `put` must be called again. */
abstract class HeapEntry {
  /** Compared before the rank. */
  weight = 0;
  rank = 0;
  /** For the heap alone; -1 while the entry is in none. An entry is in one heap at a time. */
  heapIndex = -1;
}

/** A binary heap: lowest weight first, then lowest rank. */
export class RankHeap<Entry extends HeapEntry> {
  readonly #entries: Entry[] = [];

  get first(): Entry | undefined {
    return this.#entries[0];
  }

  /** Adds an entry, or moves it to where its changed rank belongs. */
  put(entry: Entry): void {
    if (entry.heapIndex === -1) this.#set(this.#entries.length, entry);
    this.#sift(entry);
  }

  /** Removes an entry; does nothing if it is in no heap. */
  remove(entry: Entry): void {
    if (entry.heapIndex === -1) return;
    const last = this.#entries.pop();
    if (last !== undefined && last !== entry) {
      this.#set(entry.heapIndex, last);
      this.#sift(last);
    }
    entry.heapIndex = -1;
  }

  #sift(entry: Entry): void {
    for (let other = this.#misplaced(entry); other !== undefined; other = this.#misplaced(entry)) {
      const index = entry.heapIndex;
      this.#set(other.heapIndex, entry);
      this.#set(index, other);
    }
  }

  /** A parent that belongs after the entry, or the first child that belongs before it. */
  #misplaced(entry: Entry): Entry | undefined {
    const parent = this.#entries[(entry.heapIndex - 1) >> 1];
    if (parent !== undefined && isBefore(entry, parent)) return parent;
    const left = this.#entries[2 * entry.heapIndex + 1];
    const right = this.#entries[2 * entry.heapIndex + 2];
    const child = left !== undefined && right !== undefined && isBefore(right, left) ? right : left;
    return child !== undefined && isBefore(child, entry) ? child : undefined;
  }

  #set(index: number, entry: Entry): void {
    this.#entries[index] = entry;
    entry.heapIndex = index;
  }
}

function isBefore(one: HeapEntry, other: HeapEntry): boolean {
  return one.weight === other.weight ? one.rank < other.rank : one.weight < other.weight;
}

/** A list where a queue can be; it is in one list at a time. */
interface QueueList {
  put(queue: LaneQueue): void;
  remove(queue: LaneQueue): void;
}

/** The attempts of one class in a lane. Its rank is its due time while that is later, and its turn while it is due. */
export class LaneQueue extends HeapEntry {
  readonly lane: LaneState;
  readonly class: AttemptClass;
  /** When its earliest attempt is due; null if none is known. */
  dueAt: number | null = null;
  #list: QueueList | null = null;

  constructor(lane: LaneState, of: AttemptClass) {
    super();
    this.lane = lane;
    this.class = of;
  }

  get list(): QueueList | null {
    return this.#list;
  }

  /** The list in which it waits for its turn. */
  get turn(): AccountTurn | null {
    const { isIdle, isHealthy, account } = this.lane;
    const isIt = ({ group }: AccountTurn): boolean =>
      group.class === this.class && group.isIdle === isIdle && group.isHealthy === isHealthy;
    return account.turns.find(isIt) ?? null;
  }

  /** Moves it to a list, or to where its changed rank belongs in its list. */
  move(list: QueueList | null): void {
    if (this.#list !== list) this.#list?.remove(this);
    this.#list = list;
    this.weight = 0;
    list?.put(this);
  }
}

export class HostState implements QueueList {
  readonly host: string;
  slots: HostSlots;
  lanes = 0;
  inFlight = 0;
  /** Due queues without a slot: the lane that holds least first, then by turn. */
  readonly #waiting = new RankHeap<LaneQueue>();

  constructor(host: string, slots: HostSlots) {
    this.host = host;
    this.slots = slots;
  }

  get first(): LaneQueue | undefined {
    return this.#waiting.first;
  }

  put(queue: LaneQueue): void {
    queue.weight = queue.lane.load.inFlight;
    this.#waiting.put(queue);
  }

  remove(queue: LaneQueue): void {
    this.#waiting.remove(queue);
  }
}

/** An account with something to send, or with healthy hosts. It is ranked by their number. */
export class AccountState extends HeapEntry {
  readonly id: number;
  readonly lanes = new Map<string, LaneState>();
  readonly usage = new Usage();
  /** Its due queues: an entry for each of the groups; empty while it has no lane. */
  turns: readonly AccountTurn[] = [];
  /** Its healthy hosts, those first that became healthy longest ago. */
  readonly healthy = new Set<string>();

  constructor(id: number) {
    super();
    this.id = id;
  }
}

// The most bytes of bodies in flight in one lane: a host that hangs must not hold all the memory for bodies.
const LANE_BYTES_MAX = 8 * 1024 * 1024;

export class LaneState implements Standing {
  readonly account: AccountState;
  readonly host: HostState;
  readonly fresh = new LaneQueue(this, "fresh");
  readonly retries = new LaneQueue(this, "retries");
  readonly load = new LoadSum();
  isHealthy: boolean;
  /** Slots that were given while both classes were due: every fourth is for a retry. */
  turns = 0;

  constructor(account: AccountState, host: HostState) {
    this.account = account;
    this.host = host;
    this.isHealthy = account.healthy.has(host.host);
  }

  get ref(): LaneRef {
    return { accountId: this.account.id, host: this.host.host };
  }

  get isIdle(): boolean {
    return this.load.inFlight === 0;
  }

  /** How many more of its attempts its own limits allow. */
  get room(): number {
    if (this.load.bytes >= LANE_BYTES_MAX) return 0;
    const { all, probing } = this.host.slots;
    return Math.max(0, (this.isHealthy ? all : probing) - this.load.inFlight);
  }

  /** How many more its host has for its account, which leaves some to others. */
  get hostRoom(): number {
    const left = this.host.slots.all - this.host.inFlight;
    return shareOfSlots(left, this.load.inFlight, true);
  }

  get isEmpty(): boolean {
    return this.fresh.dueAt === null && this.retries.dueAt === null && this.isIdle;
  }
}

/** Due queues that get slots by the same rule. */
interface DueGroup extends Standing {
  readonly class: AttemptClass;
  /**
   * Accounts that hold least come first, then by turn: if the first account has no room, no other account has. Lanes
   * bring an account no more slots, and a new account is next.
   */
  readonly accounts: RankHeap<AccountTurn>;
}

export function newDueGroups(): readonly DueGroup[] {
  const either = [true, false];
  return (["fresh", "retries"] as const).flatMap((of) =>
    either.flatMap((isIdle) =>
      either.map((isHealthy) => ({ class: of, isIdle, isHealthy, accounts: new RankHeap() })),
    ),
  );
}

/** The due queues of an account in a group. Its weight is the number of slots that the account holds of its kind. */
export class AccountTurn extends HeapEntry implements QueueList {
  readonly group: DueGroup;
  readonly usage: Usage;
  readonly #queues = new RankHeap<LaneQueue>();
  #lastTurn = 0;

  constructor(group: DueGroup, usage: Usage) {
    super();
    this.group = group;
    this.usage = usage;
  }

  get first(): LaneQueue | undefined {
    return this.#queues.first;
  }

  /**
   * True if its turn comes before the other group's turn; within an account the lane that has been due longer is first.
   */
  isBefore(other: AccountTurn): boolean {
    const isSameAccount = other.usage === this.usage;
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

  /** Moves it to where it belongs. To be called after the account's load has changed. */
  refresh(): void {
    const { accounts, isHealthy } = this.group;
    const { first } = this.#queues;
    if (first === undefined || isFullOfBytes(this.usage, isHealthy)) {
      accounts.remove(this);
      return;
    }
    this.weight = this.usage.slotsOf(this.group.class, this.group);
    this.rank = Math.max(first.rank, this.#lastTurn);
    accounts.put(this);
  }
}
