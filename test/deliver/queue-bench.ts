import { FairQueue, type Pace } from "../../src/deliver/fair-queue.ts";
import type { AttemptClass, SlotLimits } from "../../src/deliver/slots.ts";
import type { Lane, LaneRef, LaneShare } from "../../src/store/store.ts";

/** The time at which the bench claims. */
export const NOW = 1_000_000;

interface Given {
  readonly fresh?: number;
  readonly retries?: number;
}

/** A lane by its name: `2/b` belongs to account 2 at host b, `b` to account 1. */
export function ref(name: string): LaneRef {
  const [, accountId = "1", host = name] = /^(\d+)\/(.*)$/.exec(name) ?? [];
  return { accountId: Number(accountId), host };
}

function nameOf({ accountId, host }: LaneRef): string {
  return accountId === 1 ? host : `${accountId}/${host}`;
}

/** A queue of lanes over a store with a given number of due attempts. */
export class Bench {
  readonly queue: FairQueue;
  readonly #due = new Map<string, Record<AttemptClass, number>>();

  constructor(limits: SlotLimits) {
    this.queue = new FairQueue(limits);
  }

  /** Makes this many attempts due. */
  due(host: string, { fresh = 0, retries = 0 }: Given): void {
    const due = this.#dueOf(host);
    due.fresh += fresh;
    due.retries += retries;
    this.queue.note(this.#left(host));
  }

  /** Makes one claim and returns the started attempts by lane. */
  claim(bytesEach = 0): Map<string, Record<AttemptClass, number>> {
    const started = new Map<string, Record<AttemptClass, number>>();
    for (const share of this.queue.take(NOW)) {
      const count = this.#start(share);
      const bytes = bytesEach * (count.fresh + count.retries);
      this.queue.claimed(share, { ...count, bytes }, this.#left(nameOf(share)));
      started.set(nameOf(share), count);
    }
    return started;
  }

  /** Claims until no attempt may start, and returns the started attempts of a class by lane. */
  fill(of: AttemptClass = "fresh", bytesEach = 0): ReadonlyMap<string, number> {
    const total = new Map<string, number>();
    for (let claims = 0; claims < 10_000; claims++) {
      const started = [...this.claim(bytesEach)];
      if (started.length === 0) return total;
      for (const [host, count] of started) total.set(host, (total.get(host) ?? 0) + count[of]);
    }
    throw new Error("the claims have no end");
  }

  end(host: string, end: { pace?: Pace; class?: AttemptClass; bytes?: number } = {}): void {
    const { pace = "unknown", class: of = "fresh", bytes = 0 } = end;
    this.queue.ended(ref(host), { fresh: 0, retries: 0, [of]: 1, bytes }, pace);
  }

  /** Makes a lane healthy. */
  respond(host: string): void {
    this.due(host, { fresh: 1 });
    this.claim();
    this.end(host, { pace: "quick" });
  }

  #start(share: LaneShare): Record<AttemptClass, number> {
    const due = this.#dueOf(nameOf(share));
    const fresh = Math.min(share.fresh, due.fresh);
    const retries = Math.min(share.retries, due.retries);
    due.fresh -= fresh;
    due.retries -= retries;
    return { fresh, retries };
  }

  #left(host: string): Lane {
    const { fresh, retries } = this.#dueOf(host);
    const dueAt = (count: number): number | null => (count > 0 ? NOW : null);
    return { ...ref(host), freshDueAt: dueAt(fresh), retryDueAt: dueAt(retries) };
  }

  #dueOf(host: string): Record<AttemptClass, number> {
    const due = this.#due.get(host) ?? { fresh: 0, retries: 0 };
    this.#due.set(host, due);
    return due;
  }
}

export function sum(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((total, count) => total + count, 0);
}

export function hosts(count: number, name = "host"): readonly string[] {
  return Array.from({ length: count }, (_each, index) => `${name}-${index}`);
}
