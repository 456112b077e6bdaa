import type {
  DeliveryCount,
  DeliveryCountPage,
  DeliverySummary,
  DeliverySummaryEnd,
} from "../store.ts";

/** The operator's lists of deliveries, as both stores select and count them. */

/** A delivery of a list. Its end is null throughout while no attempt has ended. */
export type DeliverySummaryRow = Omit<DeliverySummary, "last"> & {
  readonly [Name in keyof DeliverySummaryEnd]: DeliverySummaryEnd[Name] | null;
};

export function toDeliverySummary(row: DeliverySummaryRow): DeliverySummary {
  const { number, outcome, httpStatus, error, endedAt, ...summary } = row;
  const isTried = number !== null && outcome !== null && endedAt !== null;
  return { ...summary, last: isTried ? { number, outcome, httpStatus, error, endedAt } : null };
}

export const NOTHING_COUNTED: DeliveryCountPage = {
  deliveries: 0,
  hosts: [],
  next: null,
  examinedUntil: null,
};

/** Adds up what was counted by host. */
export function toCount(counts: ReadonlyMap<string, number>): DeliveryCount {
  const hosts = [...counts].map(([host, deliveries]) => ({ host, deliveries }));
  hosts.sort((a, b) => b.deliveries - a.deliveries || (a.host < b.host ? -1 : 1));
  const deliveries = hosts.reduce((sum, host) => sum + host.deliveries, 0);
  return { deliveries, hosts };
}

const HOSTS_COUNTED_MAX = 100;

/** A count that names the most numerous hosts alone. */
export function cutHosts({ deliveries, hosts }: DeliveryCount): DeliveryCount {
  return { deliveries, hosts: hosts.slice(0, HOSTS_COUNTED_MAX) };
}
