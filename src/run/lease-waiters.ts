import type { Clock } from "../domain/clock/clock.ts";
import { isError } from "../domain/error.ts";
import type { LeasedTask } from "../store/store.ts";

/** A worker's request for tasks. */
export interface ClaimOrder {
  readonly workerId: number;
  /** Without duplicates. */
  readonly types: readonly string[];
  readonly max: number;
  readonly waitMs: number;
  readonly gone: AbortSignal;
}

/** A worker's request for tasks that has no answer yet. */
export interface Poll {
  readonly order: ClaimOrder;
  /** True while the store claims for it: then only the end of the claim answers it. */
  isClaiming: boolean;
  answer(tasks: readonly LeasedTask[]): void;
  fail(error: unknown): void;
}

/**
 * The requests of workers that wait for tasks, in the order in which they came. One costs a timer and an entry for each
 * of its types; while nothing is queued nothing happens for it.
 */
export class LeaseWaiters {
  readonly #clock: Clock;
  readonly #byType = new Map<string, Set<Poll>>();
  readonly #all = new Set<Poll>();
  /** The requests whose time is over. */
  readonly #over = new Set<Poll>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Waits for an answer. `tellOver` is called when the time is over; then {@link answerOver} may answer. A client that
   * disconnects gets an empty answer at once.
   */
  wait(order: ClaimOrder, tellOver: () => void): Promise<readonly LeasedTask[]> {
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
      const timer =
        waitMs > 0 ? this.#clock.setTimer(waitMs, () => this.#end(poll, tellOver)) : null;
      if (timer === null) this.#over.add(poll);
      gone.addEventListener("abort", tellGone);
      this.#add(poll);
    });
  }

  /** The first request that waits for this type and has no claim under way. */
  first(type: string): Poll | null {
    for (const poll of this.#byType.get(type) ?? []) if (!poll.isClaiming) return poll;
    return null;
  }

  /** How many wait for this type. */
  countOf(type: string): number {
    return this.#byType.get(type)?.size ?? 0;
  }

  /** Gives an empty answer to those whose time is over, unless `mayGet` tells that they may still get something. */
  answerOver(mayGet: (type: string) => boolean): void {
    for (const poll of this.#over) {
      if (!poll.isClaiming && !poll.order.types.some(mayGet)) poll.answer([]);
    }
  }

  /** Gives an empty answer to all that have no claim under way. */
  answerAll(): void {
    for (const poll of this.#all) if (!poll.isClaiming) poll.answer([]);
  }

  #end(poll: Poll, tellOver: () => void): void {
    this.#over.add(poll);
    tellOver();
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
