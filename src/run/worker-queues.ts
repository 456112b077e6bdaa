import { type Clock, settlesWithin } from "../domain/clock/clock.ts";
import { isError } from "../domain/error.ts";
import { type Cluster, type LeaseType, type LeasedTask, StoreError } from "../store/store.ts";
import { type Claim, ClaimCredit, NOT_CLAIMED, isInputFull } from "./claim-credit.ts";

export interface WorkerType {
  /** The most leases held concurrently. */
  readonly concurrency: number;
  readonly retries: number;
  /** How long a lease holds without a heartbeat. */
  readonly leaseMs: number;
  /** From the claim to the end of the run. */
  readonly timeoutMs: number;
}

interface Queue extends WorkerType {
  readonly type: string;
  readonly credit: ClaimCredit;
  /** When it was last the first of a claim, counted in claims. */
  firstAt: number;
}

/** A claim in progress: what to claim from the store, and what {@link WorkerQueues} needs at its end. */
interface QueueClaims {
  readonly types: readonly LeaseType[];
  readonly shares: readonly { readonly queue: Queue; readonly claim: Claim }[];
  /** For all types. */
  readonly max: number;
}

/** Decides which worker types may be claimed, how many leases each has room for, and whose turn it is. */
export class WorkerQueues {
  readonly #queues: ReadonlyMap<string, Queue>;
  readonly #countHeld: (type: string) => number;
  #claims = 0;

  /** `countHeld` returns how many leases of a type are held, as far as this node knows. */
  constructor(types: ReadonlyMap<string, WorkerType>, countHeld: (type: string) => number) {
    this.#countHeld = countHeld;
    this.#queues = new Map(
      [...types].map(([type, of]) => {
        const credit = new ClaimCredit(of.concurrency);
        return [type, { ...of, type, credit, firstAt: 0 }];
      }),
    );
  }

  get types(): Iterable<string> {
    return this.#queues.keys();
  }

  /** Notes that tasks of a type may be queued; ignores types that are not worker types. */
  wake(type: string): void {
    this.#queues.get(type)?.credit.wake();
  }

  /** True if a claim of this type may find tasks and has room for them. */
  canClaim(type: string): boolean {
    const queue = this.#queues.get(type);
    return queue !== undefined && this.#room(queue) > 0;
  }

  /** True while a claim is in progress that will show whether tasks are queued. */
  isClaiming(type: string): boolean {
    return this.#queues.get(type)?.credit.isClaiming ?? false;
  }

  /** Starts a claim of the types that may have work. The type that has waited longest to be first comes first. */
  begin({ types, max }: { readonly types: readonly string[]; readonly max: number }): QueueClaims {
    const queues = types
      .filter((type) => this.canClaim(type))
      .flatMap((type) => this.#queues.get(type) ?? [])
      .sort((a, b) => a.firstAt - b.firstAt);
    const [first] = queues;
    if (first !== undefined) first.firstAt = ++this.#claims;
    const shares = queues.map((queue) => {
      const claim = queue.credit.begin(Math.min(max, this.#room(queue)));
      return { queue, claim };
    });
    return { shares, max, types: shares.map(toLeaseType) };
  }

  /** Ends a claim with the tasks that it brought. Those that are held must be noted in the same turn. */
  end({ shares, max }: QueueClaims, tasks: readonly LeasedTask[]): void {
    // The tasks of its other types may have used up its limit.
    const isCutShort = tasks.length === max || isInputFull(tasks);
    for (const { queue, claim } of shares) {
      const found = tasks.filter(({ type }) => type === queue.type).length;
      queue.credit.end(claim, { found, isCutShort });
    }
  }

  /** Ends a claim that the store could not do. */
  fail({ shares }: QueueClaims): void {
    for (const { queue, claim } of shares) queue.credit.end(claim, NOT_CLAIMED);
  }

  #room(queue: Queue): number {
    return queue.credit.room(this.#countHeld(queue.type));
  }
}

function toLeaseType({ queue, claim }: QueueClaims["shares"][number]): LeaseType {
  const { type, concurrency, leaseMs, timeoutMs } = queue;
  return { type, max: claim.max, concurrency, leaseMs, timeoutMs };
}

export interface ClaimOrder {
  readonly workerId: number;
  /** Without duplicates. */
  readonly types: readonly string[];
  readonly max: number;
  readonly waitMs: number;
  readonly gone: AbortSignal;
}

export interface Poll {
  readonly order: ClaimOrder;
  /** True while the store claims for it: then only the end of the claim ends it. */
  isClaiming: boolean;
  answer(tasks: readonly LeasedTask[]): void;
  fail(error: unknown): void;
}

/** The waiting requests of workers, in their order of arrival. While nothing is queued they cost nothing. */
export class LeaseWaiters {
  readonly #clock: Clock;
  readonly #byType = new Map<string, Set<Poll>>();
  readonly #all = new Set<Poll>();
  /** The requests whose time is over. */
  readonly #over = new Set<Poll>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `isOver` is called when the time is over, for {@link answerOver}. It ends if the client disconnects. */
  wait(order: ClaimOrder, isOver: () => void): Promise<readonly LeasedTask[]> {
    const { waitMs, gone } = order;
    if (gone.aborted) return Promise.resolve([]);
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        timer?.cancel();
        gone.removeEventListener("abort", tellGone);
        this.#remove(poll);
      };
      const poll: Poll = {
        order,
        isClaiming: false,
        answer(tasks) {
          leave();
          resolve(tasks);
        },
        fail(error) {
          leave();
          reject(isError(error) ? error : new Error(String(error)));
        },
      };
      const tellGone = (): void => {
        if (!poll.isClaiming) poll.answer([]);
      };
      const end = (): void => {
        this.#over.add(poll);
        isOver();
      };
      const timer = waitMs > 0 ? this.#clock.setTimer(waitMs, end) : null;
      if (timer === null) this.#over.add(poll);
      gone.addEventListener("abort", tellGone);
      this.#add(poll);
    });
  }

  /** The first request that waits for this type and has no claim in progress. */
  first(type: string): Poll | null {
    for (const poll of this.#byType.get(type) ?? []) if (!poll.isClaiming) return poll;
    return null;
  }

  countOf(type: string): number {
    return this.#byType.get(type)?.size ?? 0;
  }

  /** Ends the waits whose time is over without tasks, except while `mayGet` is true for one of their types. */
  answerOver(mayGet: (type: string) => boolean): void {
    for (const poll of this.#over) {
      if (!poll.isClaiming && !poll.order.types.some(mayGet)) poll.answer([]);
    }
  }

  /** Ends all waits without a claim in progress. */
  answerAll(): void {
    for (const poll of this.#all) if (!poll.isClaiming) poll.answer([]);
  }

  #add(poll: Poll): void {
    this.#all.add(poll);
    for (const type of poll.order.types) {
      const waiting = this.#byType.get(type) ?? new Set();
      this.#byType.set(type, waiting.add(poll));
    }
  }

  #remove(poll: Poll): void {
    this.#all.delete(poll);
    this.#over.delete(poll);
    for (const type of poll.order.types) this.#byType.get(type)?.delete(poll);
  }
}

// As a client that posts does.
const PATIENCE_MS = 5000;

/** In a cluster it rejects as `unknown` if the step takes too long for a worker that waits; the step goes on. */
export async function inTime<Value>(
  step: Promise<Value>,
  { clock, cluster }: { readonly clock: Clock; readonly cluster: Pick<Cluster, "isShared"> },
): Promise<Value> {
  if (!cluster.isShared || (await settlesWithin(step, PATIENCE_MS, clock))) return step;
  throw new StoreError("unknown", "the database does not respond; ask again");
}
