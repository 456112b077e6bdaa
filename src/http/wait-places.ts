import type { StatusError } from "../domain/status.ts";
import { tooManyRequests } from "./guard/rate-limiter.ts";

// Of all connections: each waiting request holds one.
const SHARE_OF_ONE = 1 / 4;
const SHARE_OF_ALL = 1 / 2;
const RETRY_AFTER_SECONDS = 5;

/**
 * Places for requests that are held until something happens: `Prefer: wait`, claims that wait, streams of events. One
 * account or worker may have a quarter as many as there may be connections, all together half as many.
 */
export class WaitPlaces {
  readonly ofOneMax: number;
  readonly ofAllMax: number;
  readonly #taken = new Map<string, number>();
  #all = 0;

  constructor(connections: number) {
    this.ofOneMax = Math.max(1, Math.floor(connections * SHARE_OF_ONE));
    this.ofAllMax = Math.max(1, Math.floor(connections * SHARE_OF_ALL));
  }

  get taken(): number {
    return this.#all;
  }

  /** The present refusal of a holder; null when there is a place for it. */
  refusal(holder: string): StatusError | null {
    const isOwn = this.#takenBy(holder) >= this.ofOneMax;
    if (!isOwn && this.#all < this.ofAllMax) return null;
    const detail = isOwn
      ? `One account or worker may have ${this.ofOneMax} requests wait at once, a quarter of limits.connections.`
      : `${this.ofAllMax} requests wait, as many as may: half of limits.connections. Ask without waiting.`;
    return tooManyRequests(RETRY_AFTER_SECONDS, { detail });
  }

  /** Takes a place, and returns the function that frees it. Throws {@link refusal}. */
  take(holder: string): () => void {
    const refused = this.refusal(holder);
    if (refused !== null) throw refused;
    this.#change(holder, 1);
    let isTaken = true;
    return () => {
      if (isTaken) this.#change(holder, -1);
      isTaken = false;
    };
  }

  #takenBy(holder: string): number {
    return this.#taken.get(holder) ?? 0;
  }

  #change(holder: string, by: number): void {
    const taken = this.#takenBy(holder) + by;
    if (taken === 0) this.#taken.delete(holder);
    else this.#taken.set(holder, taken);
    this.#all += by;
  }
}
