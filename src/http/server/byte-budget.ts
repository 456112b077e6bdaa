import type { Clock } from "../../domain/clock/clock.ts";
import { StatusError } from "../../domain/status.ts";

export interface ByteBudgetOptions {
  readonly bytes: number;
  readonly clock: Clock;
}

export const ROOM_WAIT_MS_MAX = 5000;
/** The most requests that wait for room at once, of one holder and of all. */
export const ROOM_WAITS_PER_HOLDER_MAX = 1024;
export const ROOM_WAITS_MAX = 4096;

// Nothing counts as more than this part of the budget: a larger thing would never get room.
const LARGEST_PART = 1 / 4;
// A holder of nothing gets room until all together hold so many times the budget.
const NEWCOMER_FACTOR = 4;
const RETRY_AFTER_SECONDS = "5";

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
    const headers = { "retry-after": RETRY_AFTER_SECONDS };
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
