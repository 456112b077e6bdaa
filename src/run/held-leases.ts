import type { LeaseRef } from "../domain/lease/lease.ts";

/** A lease and the type of its task. */
export interface HeldLease extends LeaseRef {
  readonly type: string;
  /** When it was claimed, monotonic; null where nobody wants to know, or nobody knows. */
  readonly since?: number | null;
}

/** Sees which leases end while a step of the store is under way. */
export interface EndWatch {
  /** True when this lease ended, or its task was cancelled, since the watch began. */
  saw(lease: LeaseRef): boolean;
  close(): void;
}

/**
 * The leases that workers hold, and so the number of each type. A step of the store that brings a lease and another
 * step that ends it may become known in either order. So everyone who adds leases watches what ends meanwhile, or those
 * leases would be held for ever.
 */
export class HeldLeases {
  readonly #byTask = new Map<string, HeldLease>();
  readonly #counts = new Map<string, number>();
  readonly #watches = new Set<Set<string>>();
  readonly #max: number;

  /**
   * Holds all leases unless given how many. Where other nodes hear of ends too, the oldest ones are hardly held any
   * more, and a heartbeat brings back one that is.
   */
  constructor(max = Infinity) {
    this.#max = max;
  }

  /** To be called before the step of the store begins. */
  watch(): EndWatch {
    const ended = new Set<string>();
    this.#watches.add(ended);
    return {
      // An id of a task never looks like an id of a lease.
      saw: ({ id, leaseId }) => ended.has(id) || ended.has(leaseId),
      close: () => this.#watches.delete(ended),
    };
  }

  /** Notes the newest lease of a task. */
  hold({ id, leaseId, type, since = null }: HeldLease): void {
    this.#remove(id);
    this.#byTask.set(id, { id, leaseId, type, since });
    this.#counts.set(type, this.countOf(type) + 1);
    const [oldest] = this.#byTask.size > this.#max ? this.#byTask.keys() : [];
    if (oldest !== undefined) this.#remove(oldest);
  }

  /** The lease of a task; null when none is held. */
  leaseOf(id: string): string | null {
    return this.#byTask.get(id)?.leaseId ?? null;
  }

  isHeld({ id, leaseId }: LeaseRef): boolean {
    return this.#byTask.get(id)?.leaseId === leaseId;
  }

  /** A lease has ended. Answers it; null when it was not held, such as one that ran out before. */
  free(lease: LeaseRef): HeldLease | null {
    for (const ended of this.#watches) ended.add(lease.leaseId);
    return this.lapse(lease);
  }

  /** A lease has run out. A heartbeat may revive it, so no watch sees it. Answers as {@link free}. */
  lapse(lease: LeaseRef): HeldLease | null {
    return this.isHeld(lease) ? this.#remove(lease.id) : null;
  }

  /** A task was cancelled, and with it whatever lease it had. Answers the type of one that was held. */
  cancel(id: string): string | null {
    for (const ended of this.#watches) ended.add(id);
    return this.#remove(id)?.type ?? null;
  }

  /** How many of a type are held. */
  countOf(type: string): number {
    return this.#counts.get(type) ?? 0;
  }

  #remove(id: string): HeldLease | null {
    const held = this.#byTask.get(id);
    if (held === undefined) return null;
    this.#byTask.delete(id);
    this.#counts.set(held.type, this.countOf(held.type) - 1);
    return held;
  }
}
