import type { IncomingMessage } from "node:http";

import type { Clock } from "../../domain/clock/clock.ts";
import { StatusError } from "../../domain/status.ts";
import type { BodyRoom } from "../body.ts";
import type { CallRoom, WholeAnswer } from "../operation.ts";
import { type ClientConnection, Counts, connectionOf, placesOfAddress } from "./connections.ts";
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

interface RoomOrder {
  readonly hold: ByteHold;
  readonly bytes: number;
  /** Ends the wait, with an error or with the room taken. */
  end(error: StatusError | null): void;
}

/**
 * The bytes that are held for clients: bodies that are being received, and responses that are not read yet. A holder is
 * an account, a worker, or the address of a client without credentials. It may take no more than it leaves free: a
 * single holder half of the budget, two holders a third each, so there is room for the next one. A request for more
 * bytes waits. Room that is given back goes to the holders in turn.
 */
export class ByteBudget {
  readonly #size: number;
  readonly #clock: Clock;
  readonly #held = new Counts();
  /** By holder; the holder whose turn it is comes first. */
  readonly #orders = new Map<string, Set<RoomOrder>>();
  #waiting = 0;

  constructor({ bytes, clock }: { readonly bytes: number; readonly clock: Clock }) {
    this.#size = bytes;
    this.#clock = clock;
  }

  get bytes(): number {
    return this.#held.all;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** A part for one request, which holds nothing yet. */
  open(holder: string): ByteHold {
    return new ByteHold(this, holder);
  }

  /** For {@link ByteHold}. */
  change(holder: string, by: number): void {
    this.#held.add(holder, by);
    if (by < 0 && this.#waiting > 0) this.#grant();
  }

  /** For {@link ByteHold}: false if that many bytes do not fit now. */
  hasRoom(holder: string, bytes: number): boolean {
    const counted = Math.min(bytes, this.#size * LARGEST_PART);
    const held = this.#held.of(holder);
    if (held + counted <= this.#size - this.#held.all) return true;
    return held === 0 && this.#held.all + counted <= this.#size * NEWCOMER_FACTOR;
  }

  /** For {@link ByteHold}: resolves when the bytes are reserved; rejects if they did not fit in time. */
  wait(hold: ByteHold, bytes: number, gone: AbortSignal): Promise<void> {
    const { holder } = hold;
    const line = this.#orders.get(holder) ?? new Set();
    if (line.size >= ROOM_WAITS_PER_HOLDER_MAX || this.#waiting >= ROOM_WAITS_MAX || gone.aborted) {
      return Promise.reject(this.#refusal(holder));
    }
    return new Promise((resolve, reject) => {
      const refuse = (): void => order.end(this.#refusal(holder));
      const end = (error: StatusError | null): void => {
        timer.cancel();
        gone.removeEventListener("abort", refuse);
        line.delete(order);
        if (line.size === 0) this.#orders.delete(holder);
        this.#waiting -= 1;
        if (error === null) resolve();
        else reject(error);
      };
      const order: RoomOrder = { hold, bytes, end };
      const timer = this.#clock.setTimer(ROOM_WAIT_MS_MAX, refuse);
      gone.addEventListener("abort", refuse);
      this.#orders.set(holder, line.add(order));
      this.#waiting += 1;
    });
  }

  // One request of a holder, then one of the next, until no waiting request has room.
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

  #refusal(holder: string): StatusError {
    const held = this.#held.of(holder);
    const share = Math.floor(this.#size / 2);
    const limit = `Unfinished bodies and unread responses of one account or address may take ${share} bytes`;
    const detail =
      held > 0
        ? `${limit}, and less while other clients use memory: yours take ${held}.`
        : `${limit}, and ${this.#size} of all: no memory is free now.`;
    const headers = { "retry-after": String(RETRY_AFTER_SECONDS) };
    return new StatusError(held > 0 ? 42900 : 50300, { detail, headers });
  }
}

/** The part of a {@link ByteBudget} that one request holds. */
export class ByteHold {
  readonly holder: string;
  readonly #budget: ByteBudget;
  #bytes = 0;
  #isEnded = false;

  constructor(budget: ByteBudget, holder: string) {
    this.#budget = budget;
    this.holder = holder;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Takes so many more bytes if there is room now; else returns false. */
  takeNow(bytes: number): boolean {
    if (!this.#budget.hasRoom(this.holder, bytes)) return false;
    this.set(this.#bytes + bytes);
    return true;
  }

  /**
   * Takes so many more bytes when there is room, within {@link ROOM_WAIT_MS_MAX}. Else throws 42900, or 50300 if this
   * holder holds nothing. `gone` ends the wait.
   */
  async take(bytes: number, gone: () => AbortSignal): Promise<void> {
    if (!this.takeNow(bytes)) await this.#budget.wait(this, bytes, gone());
  }

  /** Holds exactly so many from now on, whether there is room or not. */
  set(bytes: number): void {
    if (this.#isEnded) return;
    const by = bytes - this.#bytes;
    this.#bytes = bytes;
    if (by !== 0) this.#budget.change(this.holder, by);
  }

  /** Gives back everything, permanently. */
  end(): void {
    this.set(0);
    this.#isEnded = true;
  }
}

/** The part of the common room that one request takes, from the first byte of its body to the last of its response. */
export class RequestRoom extends ByteHold implements BodyRoom, CallRoom {
  readonly #waits: WaitPlaces;
  readonly #connection: ClientConnection | null;
  readonly #gone: () => AbortSignal;
  #letGo: (() => void) | null = null;

  constructor({ budget, waits }: SharedRoom, request: IncomingMessage, of: RoomHolder) {
    super(budget, of.holder);
    this.#waits = waits;
    this.#connection = connectionOf(request);
    this.#gone = of.gone;
  }

  override take(bytes: number): Promise<void> {
    return super.take(bytes, this.#gone);
  }

  forAnswer(): Promise<void> {
    return this.take(ANSWER_BYTES_GUESS);
  }

  /** The response exists; a stream takes a waiting place. Throws 42900 if no place is free. */
  answered({ text, bytes, stream }: WholeAnswer, isHead: boolean): void {
    this.set(bytes?.length ?? text.length * TEXT_COPIES);
    if (stream !== undefined && !isHead && !this.isEnded) this.#letGo = this.#beginWait();
  }

  waitRefusal(): StatusError | null {
    return this.#waits.refusal(this.#waiter);
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

  override end(): void {
    super.end();
    this.#letGo?.();
  }

  get #waiter(): Waiter {
    return { holder: this.holder, address: this.#connection?.address ?? this.holder };
  }

  #beginWait(): () => void {
    const letGo = this.#waits.take(this.#waiter);
    const connection = this.#connection;
    if (connection !== null) connection.isWaiting = true;
    return () => {
      letGo();
      if (connection !== null) connection.isWaiting = false;
    };
  }
}

const RETRY_AFTER_SECONDS = 5;

interface RoomHolder {
  /** An account, a worker, or the address of a client without credentials. */
  readonly holder: string;
  /** Aborted when the client disconnects. */
  readonly gone: () => AbortSignal;
}

/** The client of a request that waits. */
interface Waiter extends Pick<RoomHolder, "holder"> {
  /** As {@link ConnectionPlaces} counts it. */
  readonly address: string;
}

/**
 * Places for requests that are held until something happens: `Prefer: wait`, claims that wait, streams of events. Half
 * of all connections may wait, and all connections of an address. A holder may take no more places of either than it
 * leaves free: a single holder takes half, so the next holder finds some.
 */
export class WaitPlaces {
  readonly #allMax: number;
  readonly #ofAddressMax: number;
  readonly #all = new Counts();
  readonly #byAddress = new Map<string, Counts>();

  constructor(connections: number) {
    this.#allMax = Math.max(1, Math.floor(connections * WAITING_SHARE));
    this.#ofAddressMax = placesOfAddress(connections);
  }

  get taken(): number {
    return this.#all.all;
  }

  /** The present refusal of a client; null when there is a place for it. */
  refusal({ holder, address }: Waiter): StatusError | null {
    if (this.#all.of(holder) >= this.#allMax - this.#all.all) {
      return refused(
        `the ${this.#allMax} connections for waiting requests (half of limits.connections)`,
      );
    }
    const own = this.#byAddress.get(address);
    if (own === undefined || own.of(holder) < this.#ofAddressMax - own.all) return null;
    return refused(`the ${this.#ofAddressMax} connections of its address for waiting requests`);
  }

  /** Takes a place, and returns the function that frees it. Throws {@link refusal}. */
  take(waiter: Waiter): () => void {
    const refusal = this.refusal(waiter);
    if (refusal !== null) throw refusal;
    const { holder, address } = waiter;
    const own = this.#byAddress.get(address) ?? new Counts();
    this.#byAddress.set(address, own);
    const change = (by: 1 | -1): void => {
      for (const counts of [this.#all, own]) counts.add(holder, by);
      if (own.all === 0) this.#byAddress.delete(address);
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
  const detail = `One account or worker may use at most half of ${ofWhat}, and less while others wait. Repeat the request without waiting.`;
  return tooManyRequests(RETRY_AFTER_SECONDS, { detail });
}
