import type { LeasedTask, LeaseType } from "../store/store.ts";
import { ClaimCredit, isInputFull, NOT_CLAIMED, type Claim } from "./claim-credit.ts";

/** A type whose tasks external workers claim. */
export interface WorkerType {
  /** The most leases held at once. */
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

/** A claim that was begun: what to ask of the store, and what {@link WorkerQueues} must know at its end. */
interface QueueClaims {
  readonly types: readonly LeaseType[];
  readonly shares: readonly { readonly queue: Queue; readonly claim: Claim }[];
  /** For all types. */
  readonly max: number;
}

/**
 * Decides for each worker type whether a claim may find something, how many leases it has room for, and whose turn it
 * is.
 */
export class WorkerQueues {
  readonly #queues: ReadonlyMap<string, Queue>;
  readonly #countHeld: (type: string) => number;
  #claims = 0;

  /** `countHeld` tells how many leases of a type are held, as far as that is known here. */
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

  /** Tells that there may be queued tasks of a type; types of another kind are ignored. */
  wake(type: string): void {
    this.#queues.get(type)?.credit.wake();
  }

  /** True when a claim of this type may find something and has room for it. */
  canClaim(type: string): boolean {
    const queue = this.#queues.get(type);
    return queue !== undefined && this.#room(queue) > 0;
  }

  /** True when it will soon be better known whether there is work. */
  isClaiming(type: string): boolean {
    return this.#queues.get(type)?.credit.isClaiming ?? false;
  }

  /** Begins a claim of those types that may have work. The type that has waited longest to be first comes first. */
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
    // The tasks of its other types may have left no place for more.
    const isCutShort = tasks.length === max || isInputFull(tasks);
    for (const { queue, claim } of shares) {
      const found = tasks.filter(({ type }) => type === queue.type).length;
      queue.credit.end(claim, { found, isCutShort });
    }
  }

  /** Ends a claim that the store could not do: nothing is known. */
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
