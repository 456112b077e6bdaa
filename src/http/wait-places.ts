import type { StatusError } from "../domain/status.ts";
import { tooManyRequests } from "./guard/rate-limiter.ts";
import { placesOfAddress } from "./server/connection-places.ts";

// Of all connections: each waiting request holds one.
const SHARE_OF_ALL = 1 / 2;
const RETRY_AFTER_SECONDS = 5;

/** The client of a request that waits. */
export interface Waiter {
  /** An account, a worker, or the address of a client without credentials. */
  readonly holder: string;
  /** As {@link ConnectionPlaces} counts it. */
  readonly address: string;
}

/**
 * Places for requests that are held until something happens: `Prefer: wait`, claims that wait, streams of events. Half
 * of all connections may wait, and all connections of an address. A holder may take no more places of either than it
 * leaves free: a single holder takes half, so the next holder finds some.
 */
export class WaitPlaces {
  readonly #ofAll: Places;
  readonly #ofAddressMax: number;
  readonly #byAddress = new Map<string, Places>();

  constructor(connections: number) {
    this.#ofAll = new Places(Math.max(1, Math.floor(connections * SHARE_OF_ALL)));
    this.#ofAddressMax = placesOfAddress(connections);
  }

  get taken(): number {
    return this.#ofAll.taken;
  }

  /** The present refusal of a client; null when there is a place for it. */
  refusal({ holder, address }: Waiter): StatusError | null {
    if (!this.#ofAll.hasRoomFor(holder)) {
      return refused(`the ${this.#ofAll.max} that may wait, half of limits.connections`);
    }
    if (this.#byAddress.get(address)?.hasRoomFor(holder) !== false) return null;
    return refused(`the ${this.#ofAddressMax} that its address may have`);
  }

  /** Takes a place, and returns the function that frees it. Throws {@link refusal}. */
  take(waiter: Waiter): () => void {
    const refusal = this.refusal(waiter);
    if (refusal !== null) throw refusal;
    const { holder, address } = waiter;
    const ofAddress = this.#byAddress.get(address) ?? new Places(this.#ofAddressMax);
    this.#byAddress.set(address, ofAddress);
    const change = (by: 1 | -1): void => {
      for (const places of [this.#ofAll, ofAddress]) places.change(holder, by);
      if (ofAddress.taken === 0) this.#byAddress.delete(address);
    };
    change(1);
    let isTaken = true;
    return () => {
      if (isTaken) change(-1);
      isTaken = false;
    };
  }
}

function refused(ofWhat: string): StatusError {
  const detail = `The waiting requests of one account or worker may take no more connections than they leave free of ${ofWhat}. Ask without waiting.`;
  return tooManyRequests(RETRY_AFTER_SECONDS, { detail });
}

/** Places that holders share. */
class Places {
  readonly max: number;
  readonly #byHolder = new Map<string, number>();
  #taken = 0;

  constructor(max: number) {
    this.max = max;
  }

  get taken(): number {
    return this.#taken;
  }

  hasRoomFor(holder: string): boolean {
    return this.#takenBy(holder) < this.max - this.#taken;
  }

  change(holder: string, by: number): void {
    const taken = this.#takenBy(holder) + by;
    if (taken === 0) this.#byHolder.delete(holder);
    else this.#byHolder.set(holder, taken);
    this.#taken += by;
  }

  #takenBy(holder: string): number {
    return this.#byHolder.get(holder) ?? 0;
  }
}
