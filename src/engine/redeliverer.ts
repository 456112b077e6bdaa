import type { RedeliveryOrder, Store } from "../store/store.ts";
import { persist, type PersistDeps } from "./persist.ts";

/** What of the store this redeliverer uses. */
export type OrderedStore = Pick<Store, "findOpenRedeliveryOrder" | "stepRedeliveryOrder">;

export interface RedelivererDeps extends PersistDeps {
  readonly store: OrderedStore;
  /** These hosts have an attempt due now, and that is on disk. */
  readonly deliveriesDue: (hosts: readonly string[]) => void;
  /** The store can write no more. */
  readonly failed: (error: unknown) => void;
}

/** The order that is worked on, with what it has sent so far. */
interface OrderUnderWay {
  readonly id: string;
  redelivered: number;
}

/**
 * Works off the operator's orders to send deliveries again: the oldest first, one at a time, each no faster than it
 * says. What is used up is counted by the second of the wall clock, so that ticks that come late or together make no
 * burst. How far an order is stands in the store: a restart goes on where the last step ended, and an order
 * that was cancelled, by whichever process, is not found again.
 */
export class Redeliverer {
  readonly #deps: RedelivererDeps;
  #work: Promise<void> | null = null;
  #underWay: OrderUnderWay | null = null;
  /** The second that is being used up, in seconds since the epoch. */
  #second = -1;
  #usedInSecond = 0;
  #stopping = false;

  constructor(deps: RedelivererDeps) {
    this.#deps = deps;
  }

  /** Goes on with the orders, as far as this second admits. To be called once a second. */
  tick(): void {
    if (this.#work !== null || this.#stopping) return;
    this.#work = this.#run()
      .catch(this.#deps.failed)
      .finally(() => {
        this.#work = null;
      });
  }

  /** True when no step is under way: what is left of an order waits for the next second. */
  isIdle(): boolean {
    return this.#work === null;
  }

  /** Settles when no step is under way. */
  async quiet(): Promise<void> {
    await this.#work;
  }

  /** Begins no step after this. */
  drain(): void {
    this.#stopping = true;
  }

  async #run(): Promise<void> {
    const { store } = this.#deps;
    while (!this.#stopping) {
      const order = await persist(() => store.findOpenRedeliveryOrder(), this.#deps);
      this.#note(order);
      if (order === null) return;
      const max = this.#leftInSecond(order);
      if (max <= 0) return;
      await this.#step(order.id, max);
    }
  }

  async #step(id: string, max: number): Promise<void> {
    const { store, clock, deliveriesDue } = this.#deps;
    const step = { id, max, now: clock.now() };
    const { hosts, redelivered, isDone } = await persist(
      () => store.stepRedeliveryOrder(step),
      this.#deps,
    );
    this.#usedInSecond += redelivered;
    if (this.#underWay !== null) this.#underWay.redelivered += redelivered;
    if (redelivered > 0) deliveriesDue(hosts);
    if (isDone) this.#end("redelivery order ended");
  }

  #leftInSecond({ perSecond }: RedeliveryOrder): number {
    const second = Math.floor(this.#deps.clock.now() / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#usedInSecond = 0;
    }
    return perSecond - this.#usedInSecond;
  }

  #note(order: RedeliveryOrder | null): void {
    if (this.#underWay !== null && this.#underWay.id !== order?.id) {
      this.#end("redelivery order cancelled");
    }
    if (order === null || this.#underWay !== null) return;
    const { id, redelivered, perSecond } = order;
    this.#underWay = { id, redelivered };
    this.#deps.log.info({ id, redelivered, perSecond }, "redelivery order taken up");
  }

  #end(message: string): void {
    if (this.#underWay !== null) this.#deps.log.info({ ...this.#underWay }, message);
    this.#underWay = null;
  }
}
