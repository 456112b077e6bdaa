import type { DeliveryFilter } from "../domain/webhook/delivery.ts";
import type { LaneRef } from "./delivery.ts";

/** What the store takes and gives about orders to send many deliveries again; re-exported by store.ts. */

/** What is remembered of orders to send many deliveries again. */
export interface RedeliveryOrderStore {
  /**
   * Keeps an order to send again what has ended and passes the filter by now; the engine works it off. What ends
   * later is not part of it. `busy` when as many orders of its login are open as it admits; counted in the same step.
   */
  orderRedelivery(order: RedeliveryRequest): Promise<RedeliveryOrder | "busy">;
  /** Orders, newest first; of a login those whose filter names it, as far as they are among the newest thousands. */
  listRedeliveryOrders(query: {
    login: string | null;
    limit: number;
  }): Promise<readonly RedeliveryOrder[]>;
  /**
   * Ends an order before its time; what it sent stays sent. Null for an unknown id, and for one whose filter does not
   * name the login; one that has ended stays.
   */
  cancelRedeliveryOrder(cancel: {
    id: string;
    login: string | null;
    now: number;
  }): Promise<RedeliveryOrder | null>;
  /** Orders that are not worked off, the oldest first; none whose filter names an account that is disabled. */
  listOpenRedeliveryOrders(query: { limit: number }): Promise<readonly RedeliveryOrder[]>;
  /**
   * Works on an order: looks at some attempts, from where it stopped the last time, and begins a fresh series for
   * up to `max` deliveries; how far it got is kept in the same step. One that has ended does nothing.
   */
  stepRedeliveryOrder(step: { id: string; max: number; now: number }): Promise<RedeliveryStep>;
}

/** The operator's order to send many deliveries again. The daemon works it off, so many a second. */
export interface NewRedeliveryOrder {
  readonly id: string;
  readonly filter: DeliveryFilter;
  readonly perSecond: number;
  readonly createdAt: number;
}

/** An order to be kept. */
export interface RedeliveryRequest extends NewRedeliveryOrder {
  /** Not kept while so many orders of its filter's login are open; null is no limit. */
  readonly openMax: number | null;
}

export interface RedeliveryOrder extends NewRedeliveryOrder {
  /** Deliveries that were given a fresh series so far. */
  readonly redelivered: number;
  readonly endedAt: number | null;
  readonly isCancelled: boolean;
}

export interface RedeliveryStep {
  /** Lanes that now have an attempt due. */
  readonly lanes: readonly LaneRef[];
  readonly redelivered: number;
  /** Nothing is left of this order. */
  readonly isDone: boolean;
}
