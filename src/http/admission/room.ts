import type { IncomingMessage } from "node:http";

import type { Clock } from "../../domain/clock/clock.ts";
import { StatusError } from "../../domain/status.ts";
import type { BodyRoom } from "../body.ts";
import type { CallRoom, WholeAnswer } from "../operation.ts";
import { connectionOf, placesOfAddress } from "./connections.ts";
import {
  LARGEST_PART,
  NEWCOMER_FACTOR,
  ROOM_WAIT_MS_MAX,
  ROOM_WAITS_PER_HOLDER_MAX,
  ROOM_WAITS_MAX,
  ANSWER_BYTES_GUESS,
  TEXT_COPIES,
  WAITING_SHARE,
} from "./limits.ts";
import { tooManyRequests } from "./quota.ts";

export interface SharedRoom {
  readonly budget: ByteBudget;
  readonly waits: WaitPlaces;
}

export interface Roomed {
  readonly request: IncomingMessage;
  /** The holder of its room: an account, a worker, or an address. */
  readonly holder: string;
  readonly gone: () => AbortSignal;
}

/** The part of the common room that one request takes, from the first byte of its body to the last of its answer. */
export class RequestRoom implements BodyRoom, CallRoom {
  readonly #shared: SharedRoom;
  readonly #roomed: Roomed;
  readonly #hold: ByteHold;
  #letGo: (() => void) | null = null;
  #isEnded = false;

  constructor(shared: SharedRoom, roomed: Roomed) {
    this.#shared = shared;
    this.#roomed = roomed;
    this.#hold = shared.budget.open(roomed.holder);
  }

  takeNow(bytes: number): boolean {
    return this.#hold.takeNow(bytes);
  }

  take(bytes: number): Promise<void> {
    return this.#hold.take(bytes, this.#roomed.gone);
  }

  set(bytes: number): void {
    this.#hold.set(bytes);
  }

  async forAnswer(): Promise<void> {
    if (!this.takeNow(ANSWER_BYTES_GUESS)) await this.take(ANSWER_BYTES_GUESS);
  }

  /** The answer exists; a stream takes a place among those that wait. Throws 42900 where there is none. */
  answered({ text, bytes, stream }: WholeAnswer, isHead: boolean): void {
    this.set(bytes?.length ?? text.length * TEXT_COPIES);
    if (stream !== undefined && !isHead && !this.#isEnded) this.#letGo = this.#beginWait();
  }

  waitRefusal(): StatusError | null {
    return this.#shared.waits.refusal(this.#waiter());
  }

  async whileWaiting<T>(begin: () => Promise<T>): Promise<T> {
    const letGo = this.#beginWait();
    this.set(0);
    try {
      return await begin();
    } finally {
      letGo();
    }
  }

  /** Gives back everything: the answer has gone, or the client has. */
  end(): void {
    this.#isEnded = true;
    this.#letGo?.();
    this.#hold.end();
  }

  #waiter(): Waiter {
    const { request, holder } = this.#roomed;
    return { holder, address: connectionOf(request)?.address ?? holder };
  }

  #beginWait(): () => void {
    const letGo = this.#shared.waits.take(this.#waiter());
    const connection = connectionOf(this.#roomed.request);
    if (connection !== null) connection.isWaiting = true;
    return () => {
      letGo();
      if (connection !== null) connection.isWaiting = false;
    };
  }
}

export interface ByteBudgetOptions {
  readonly bytes: number;
  readonly clock: Clock;
}

interface Holder {
  readonly name: string;
  bytes: number;
  /** How many of its requests have a part. */
  holds: number;
}

interface RoomOrder {
  readonly hold: ByteHold;
  readonly bytes: number;
  /** Ends the wait, with an error or with the room taken. */
  end(error: StatusError | null): void;
}

/**
 * The bytes that are held for clients: bodies that are being received, and answers that are not read yet. A holder is
 * an account, a worker, or the address of a client without credentials. It may take no more than it leaves free: a
 * single holder half of the budget, two holders a third each, so there is room for the next one. Whoever asks for
 * more waits. Room that is given back goes to the holders in turn.
 */
export class ByteBudget {
  readonly #bytes: number;
  readonly #clock: Clock;
  readonly #holders = new Map<string, Holder>();
  /** By holder; the one whose turn it is comes first. */
  readonly #orders = new Map<Holder, Set<RoomOrder>>();
  #all = 0;
  #waiting = 0;

  constructor({ bytes, clock }: ByteBudgetOptions) {
    this.#bytes = bytes;
    this.#clock = clock;
  }

  get bytes(): number {
    return this.#all;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** A part for one request, which holds nothing yet. */
  open(name: string): ByteHold {
    const holder = this.#holders.get(name) ?? { name, bytes: 0, holds: 0 };
    if (holder.holds === 0) this.#holders.set(name, holder);
    holder.holds += 1;
    return new ByteHold(this, holder);
  }

  /** For {@link ByteHold}. */
  change(holder: Holder, by: number): void {
    holder.bytes += by;
    this.#all += by;
    if (by < 0 && this.#waiting > 0) this.#grant();
  }

  /** For {@link ByteHold}. */
  close(holder: Holder): void {
    holder.holds -= 1;
    if (holder.holds === 0) this.#holders.delete(holder.name);
  }

  /** For {@link ByteHold}: false where there is no room for so many bytes now. */
  hasRoom(holder: Holder, bytes: number): boolean {
    const counted = Math.min(bytes, this.#bytes * LARGEST_PART);
    if (holder.bytes + counted <= this.#bytes - this.#all) return true;
    return holder.bytes === 0 && this.#all + counted <= this.#bytes * NEWCOMER_FACTOR;
  }

  /** For {@link ByteHold}: settles when the room is taken; rejects when there was none in time. */
  wait(
    hold: ByteHold,
    { bytes, gone }: { readonly bytes: number; readonly gone: AbortSignal },
  ): Promise<void> {
    const { holder } = hold;
    const line = this.#orders.get(holder) ?? new Set();
    if (line.size >= ROOM_WAITS_PER_HOLDER_MAX || this.#waiting >= ROOM_WAITS_MAX || gone.aborted) {
      return Promise.reject(this.#refusal(holder));
    }
    return new Promise((resolve, reject) => {
      const refuse = (): void => order.end(this.#refusal(holder));
      const order: RoomOrder = {
        hold,
        bytes,
        end: (error) => {
          timer.cancel();
          gone.removeEventListener("abort", refuse);
          line.delete(order);
          if (line.size === 0) this.#orders.delete(holder);
          this.#waiting -= 1;
          if (error === null) resolve();
          else reject(error);
        },
      };
      const timer = this.#clock.setTimer(ROOM_WAIT_MS_MAX, refuse);
      gone.addEventListener("abort", refuse);
      this.#orders.set(holder, line.add(order));
      this.#waiting += 1;
    });
  }

  // One request of a holder, then one of the next, until nobody who waits has room.
  #grant(): void {
    for (let isGiving = true; isGiving;) {
      isGiving = false;
      for (const [holder, line] of [...this.#orders]) {
        const [order] = line;
        if (order === undefined || !this.hasRoom(holder, order.bytes)) continue;
        // The holder goes to the end of the line.
        this.#orders.delete(holder);
        this.#orders.set(holder, line);
        order.hold.set(order.hold.bytes + order.bytes);
        order.end(null);
        isGiving = true;
      }
    }
  }

  #refusal({ bytes: held }: Holder): StatusError {
    const headers = { "retry-after": String(RETRY_AFTER_SECONDS) };
    const share = Math.floor(this.#bytes / 2);
    const limit = `Bodies that are not finished and answers that are not read may take ${share} bytes of one account or address`;
    if (held > 0) {
      const detail = `${limit}, and less while others hold some: yours take ${held}.`;
      return new StatusError(42900, { detail, headers });
    }
    const detail = `${limit}, and ${this.#bytes} of all: there is no room now.`;
    return new StatusError(50300, { detail, headers });
  }
}

/** The part of a {@link ByteBudget} that one request holds. */
export class ByteHold {
  readonly holder: Holder;
  readonly #budget: ByteBudget;
  #bytes = 0;
  #isEnded = false;

  constructor(budget: ByteBudget, holder: Holder) {
    this.#budget = budget;
    this.holder = holder;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Takes so many more bytes if there is room now; else returns false. */
  takeNow(bytes: number): boolean {
    if (!this.#budget.hasRoom(this.holder, bytes)) return false;
    this.set(this.#bytes + bytes);
    return true;
  }

  /**
   * Takes so many more bytes when there is room: at once, or within {@link ROOM_WAIT_MS_MAX}. Else throws 42900, or
   * 50300 where this holder holds nothing. `gone` ends the wait.
   */
  async take(bytes: number, gone: () => AbortSignal): Promise<void> {
    if (!this.takeNow(bytes)) await this.#budget.wait(this, { bytes, gone: gone() });
  }

  /** Holds exactly so many from now on, whether there is room or not. */
  set(bytes: number): void {
    if (this.#isEnded) return;
    const by = bytes - this.#bytes;
    this.#bytes = bytes;
    if (by !== 0) this.#budget.change(this.holder, by);
  }

  /** Gives back everything, for good. */
  end(): void {
    if (this.#isEnded) return;
    this.set(0);
    this.#isEnded = true;
    this.#budget.close(this.holder);
  }
}

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
    this.#ofAll = new Places(Math.max(1, Math.floor(connections * WAITING_SHARE)));
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
