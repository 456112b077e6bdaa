import type { DeliveryFilter } from "../../domain/webhook/delivery.ts";
import type { RedeliveryOrder, RedeliveryStep } from "../store.ts";

/** An order to send many deliveries again, as both stores keep it. */
export interface OrderRow extends Omit<RedeliveryOrder, "filter" | "isCancelled"> {
  readonly filterText: string;
  readonly isCancelled: 0 | 1 | boolean;
  /** The newest attempt when the order was given, and the last that it has looked at. */
  readonly lastAttempt: number;
  readonly examined: number;
}

/** The step of an order that has ended. */
export const NOTHING_LEFT: RedeliveryStep = { lanes: [], redelivered: 0, isDone: true };

export function toOrder(row: OrderRow): RedeliveryOrder {
  const { id, perSecond, createdAt, redelivered, endedAt } = row;
  const isCancelled = Boolean(row.isCancelled);
  return { id, filter: toFilter(row), perSecond, createdAt, redelivered, endedAt, isCancelled };
}

export function toFilter({ filterText }: Pick<OrderRow, "filterText">): DeliveryFilter {
  // Only orderRedelivery writes this column.
  return JSON.parse(filterText) as DeliveryFilter;
}
