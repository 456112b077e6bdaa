import { Loop, type LoopDeps } from "../store/loop.ts";
import { keepTrying, type RetryDeps } from "../store/retry.ts";
import type { LaneRef, RedeliveryOrder, Store } from "../store/store.ts";

interface RedelivererDeps extends RetryDeps, Pick<LoopDeps, "failed"> {
  readonly deliveriesDue: (lanes: readonly LaneRef[]) => void;
  readonly store: Pick<Store, "listOpenRedeliveryOrders" | "stepRedeliveryOrder">;
}

interface OrderUnderWay {
  readonly id: string;
  /** The number of deliveries that it has sent so far. */
  redelivered: number;
  /** How much of that is within the current second. */
  usedInSecond: number;
}

// The oldest orders; younger orders wait until one of the oldest has ended.
const ORDERS_MAX = 100;

// For one second and all orders. Each step looks at up to 2,000 attempts and holds up every other write for 2 ms, so
// orders that find little take half of the writer's time at most (measured: see store/sqlite/redelivery-orders.ts).
const STEPS_PER_SECOND = 250;

/**
 * Processes the bulk redeliveries, as far as the current second allows: one step of each in turn, each at most at its
 * rate. The rate is counted by the second of the wall clock, so that ticks that come late or together make no burst.
 * The store keeps the progress of an order: after a restart it continues where the last step ended, and an order that
 * any process cancelled is not found again. An order of a disabled account rests until the account is enabled.
 * Deliveries of such an account that an order for all accounts starts wait until then.
 */
export function createRedeliverer(deps: RedelivererDeps): Loop {
  const orders = new OpenOrders(deps);
  return new Loop({
    failed: deps.failed,
    async round(loop) {
      while (!loop.isDraining && (await orders.step(loop))) continue;
    },
  });
}

class OpenOrders {
  readonly #deps: RedelivererDeps;
  readonly #underWay = new Map<string, OrderUnderWay>();
  #second = -1;
  #stepsInSecond = 0;

  constructor(deps: RedelivererDeps) {
    this.#deps = deps;
  }

  /** Takes one step of each order that this second allows; false when it allows none. */
  async step(loop: Pick<Loop, "isDraining">): Promise<boolean> {
    const { store } = this.#deps;
    const limit = ORDERS_MAX;
    const orders = await keepTrying(() => store.listOpenRedeliveryOrders({ limit }), this.#deps);
    this.#note(orders);
    let steps = 0;
    for (const { id, perSecond } of this.#inTurn(orders)) {
      const order = this.#underWay.get(id);
      if (loop.isDraining || order === undefined || !this.#hasStep(order, perSecond)) continue;
      await this.#step(order, perSecond);
      steps++;
    }
    return steps > 0;
  }

  // When the steps of a second do not suffice for all, each second begins with another order.
  #inTurn(orders: readonly RedeliveryOrder[]): readonly RedeliveryOrder[] {
    const first = orders.length === 0 ? 0 : Math.max(0, this.#second) % orders.length;
    return [...orders.slice(first), ...orders.slice(0, first)];
  }

  #hasStep(order: OrderUnderWay, perSecond: number): boolean {
    const second = Math.floor(this.#deps.clock.now() / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#stepsInSecond = 0;
      for (const each of this.#underWay.values()) each.usedInSecond = 0;
    }
    return this.#stepsInSecond < STEPS_PER_SECOND && order.usedInSecond < perSecond;
  }

  async #step(order: OrderUnderWay, perSecond: number): Promise<void> {
    const { store, clock, deliveriesDue } = this.#deps;
    const step = { id: order.id, max: perSecond - order.usedInSecond, now: clock.now() };
    const { lanes, redelivered, isDone } = await keepTrying(
      () => store.stepRedeliveryOrder(step),
      this.#deps,
    );
    this.#stepsInSecond++;
    order.usedInSecond += redelivered;
    order.redelivered += redelivered;
    if (redelivered > 0) deliveriesDue(lanes);
    if (isDone) this.#end(order, "redelivery order ended");
  }

  #note(orders: readonly RedeliveryOrder[]): void {
    const open = new Set(orders.map(({ id }) => id));
    for (const order of [...this.#underWay.values()]) {
      if (open.has(order.id)) continue;
      this.#end(order, "redelivery order cancelled, or its account disabled");
    }
    for (const { id, redelivered, perSecond } of orders) {
      if (this.#underWay.has(id)) continue;
      this.#underWay.set(id, { id, redelivered, usedInSecond: 0 });
      this.#deps.log.info(
        { order: id, redelivered, per_second: perSecond },
        "redelivery order begun or resumed",
      );
    }
  }

  #end({ id, redelivered }: OrderUnderWay, message: string): void {
    this.#underWay.delete(id);
    this.#deps.log.info({ order: id, redelivered }, message);
  }
}
