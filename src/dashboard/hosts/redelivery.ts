import { signal } from "@preact/signals";

import type { AnswerOf } from "../../api/operations.ts";
import type { WrittenFilter } from "../../api/search.ts";
import { call } from "../shell/api.ts";

/** The deliveries that an order would send again, as far as they are counted. */
export interface Counted {
  readonly deliveries: number;
  /** The host with the most comes first. */
  readonly hosts: readonly { readonly host: string; readonly deliveries: number }[];
  /** True when everything has been counted. */
  readonly isWhole: boolean;
}

export const NOTHING_COUNTED: Counted = { deliveries: 0, hosts: [], isWhole: false };

// Each page lists only the largest hosts: a long list here would be wrong at its end.
const HOSTS_SHOWN_MAX = 10;

/**
 * Counts page by page the deliveries that pass a filter, and reports the count after each. Ends early when `stop`
 * aborts; the last report stands. Throws an ApiError.
 */
export async function countRedelivery(
  filter: WrittenFilter,
  { stop, report }: { readonly stop: AbortSignal; readonly report: (counted: Counted) => void },
): Promise<void> {
  const byHost = new Map<string, number>();
  let deliveries = 0;
  let cursor: string | null = null;
  do {
    const page: AnswerOf<"POST /v1/redeliveries/preview"> = await call(
      "POST /v1/redeliveries/preview",
      { body: { ...filter, cursor: cursor ?? undefined }, signal: stop },
    );
    deliveries += page.deliveries;
    for (const { host, deliveries: more } of page.hosts) {
      byHost.set(host, (byHost.get(host) ?? 0) + more);
    }
    cursor = page.next_cursor;
    report({ deliveries, hosts: largest(byHost), isWhole: cursor === null });
  } while (cursor !== null && !stop.aborted);
}

function largest(byHost: ReadonlyMap<string, number>): Counted["hosts"] {
  return [...byHost]
    .map(([host, deliveries]) => ({ host, deliveries }))
    .toSorted((a, b) => b.deliveries - a.deliveries)
    .slice(0, HOSTS_SHOWN_MAX);
}

/** The number of deliveries of each order given on this page, by order. */
export const knownTotals = signal<ReadonlyMap<string, number>>(new Map());

/** Grows with every order. */
export const ordersGiven = signal(0);

/** Gives the order. Throws an ApiError. */
export async function orderRedelivery(
  filter: WrittenFilter,
  { perSecond, counted }: { readonly perSecond: number; readonly counted: Counted },
): Promise<void> {
  const { redelivery } = await call("POST /v1/redeliveries", {
    body: { ...filter, per_second: perSecond },
  });
  if (counted.isWhole) {
    knownTotals.value = new Map(knownTotals.value).set(redelivery.id, counted.deliveries);
  }
  ordersGiven.value++;
}
