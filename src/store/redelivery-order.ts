import type { DeliveryFilter } from "../domain/webhook/delivery.ts";
import type { Audited } from "./audit.ts";
import type { LaneRef } from "./delivery.ts";

/** Remembers orders to send many deliveries again. */
export interface RedeliveryOrderStore {
  /**
   * Keeps an order to send again the deliveries that have ended and pass the filter by now; the engine works it off.
   * Deliveries that end later are not part of it. Answers `busy` when its login has `openMax` open orders (null is no
   * limit); they are counted in the same step.
   */
  orderRedelivery(
    order: NewRedeliveryOrder & { openMax: number | null } & Audited,
  ): Promise<RedeliveryOrder | "busy">;
  /** Lists orders, newest first, among the newest `ORDERS_LISTED_MAX`. For a login: those whose filter names it. */
  listRedeliveryOrders(query: {
    login: string | null;
    limit: number;
  }): Promise<readonly RedeliveryOrder[]>;
  findRedeliveryOrder(id: string): Promise<RedeliveryOrder | null>;
  /**
   * Ends an order before its time; what it has sent stays sent. Null for an unknown id, and for an order whose filter
   * does not name the login. An order that has ended stays as it is.
   */
  cancelRedeliveryOrder(cancel: {
    id: string;
    login: string | null;
    now: number;
  }): Promise<RedeliveryOrder | null>;
  /** Lists orders that are not finished, oldest first. Leaves out those whose filter names a disabled account. */
  listOpenRedeliveryOrders(query: { limit: number }): Promise<readonly RedeliveryOrder[]>;
  /**
   * Works on an order: looks at some attempts, from where it stopped the last time, and begins a fresh series for up to
   * `max` deliveries. Its progress is kept in the same step. An order that has ended does nothing.
   */
  stepRedeliveryOrder(step: { id: string; max: number; now: number }): Promise<RedeliveryStep>;
}

/** The operator's order to send many deliveries again. The daemon works it off at a rate per second. */
export interface NewRedeliveryOrder {
  readonly id: string;
  readonly filter: DeliveryFilter;
  readonly perSecond: number;
  readonly createdAt: number;
}

export interface RedeliveryOrder extends NewRedeliveryOrder {
  /** The deliveries that were given a fresh series so far. */
  readonly redelivered: number;
  readonly endedAt: number | null;
  readonly isCancelled: boolean;
}

export interface RedeliveryStep {
  /** Lanes that now have an attempt due. */
  readonly lanes: readonly LaneRef[];
  readonly redelivered: number;
  /** True when nothing is left of this order. */
  readonly isDone: boolean;
}
