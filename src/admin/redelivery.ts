import type { RedeliveryFilter, RedeliveryOrder as OrderShown } from "../api/search.ts";
import { timeOrNull, timeText } from "../domain/clock/time.ts";
import { pauseOf, scopeText } from "../domain/webhook/delivery-pause.ts";
import { type DeliveryFilter, hastensScheduled } from "../domain/webhook/delivery.ts";
import type { DeliveryCount, RedeliveryOrder, Store, TaskDeliveries } from "../store/store.ts";
import type { KeyContext } from "./context.ts";
import { hostOf } from "./delivery-report.ts";

/** The deliveries of a named task that an order sends: those that have ended, and scheduled ones. */
export function withScheduled(
  ended: DeliveryCount,
  { deliveries: all }: TaskDeliveries,
  filter: DeliveryFilter,
): DeliveryCount {
  if (!hastensScheduled(filter)) return ended;
  const scheduled = all.filter(
    ({ state, kind }) => state === "scheduled" && (filter.kind ?? kind) === kind,
  );
  const hosts = new Map(ended.hosts.map(({ host, deliveries }) => [host, deliveries]));
  for (const { url } of scheduled) hosts.set(hostOf(url), (hosts.get(hostOf(url)) ?? 0) + 1);
  return {
    deliveries: ended.deliveries + scheduled.length,
    hosts: [...hosts].map(([host, deliveries]) => ({ host, deliveries })),
  };
}

/** Places an order without a limit of open ones, as the operator may. */
export async function placeOrder(
  asked: Pick<RedeliveryOrder, "filter" | "perSecond">,
  deliveries: number,
  { store, ids, now, audit }: KeyContext<"orderRedelivery">,
): Promise<RedeliveryOrder> {
  const id = ids.next(now);
  const filter = filterText(asked.filter);
  const entry = audit("order.placed", id, { account: asked.filter.login, filter, deliveries });
  const request = { ...asked, id, createdAt: now, openMax: null, audit: entry };
  const order = await store.orderRedelivery(request);
  if (order === "busy") throw new Error("an order without a limit was refused");
  return order;
}

export function stateOf({ endedAt, isCancelled }: RedeliveryOrder): OrderRecord["state"] {
  if (isCancelled) return "cancelled";
  return endedAt === null ? "open" : "done";
}

type OrderRecord = Omit<OrderShown, "id" | "filter" | "is_cancelled"> & {
  readonly order_id: string;
  readonly state: "open" | "cancelled" | "done";
  readonly filter: RedeliveryFilter &
    Pick<DeliveryFilter, "outcome"> & { readonly task_id: string | null };
};

/** An order as the command line shows it in JSON. */
export function orderRecord(order: RedeliveryOrder): OrderRecord {
  const { filter } = order;
  return {
    order_id: order.id,
    state: stateOf(order),
    created_at: timeText(order.createdAt),
    ended_at: timeOrNull(order.endedAt),
    per_second: order.perSecond,
    redelivered: order.redelivered,
    filter: {
      task_id: filter.taskId,
      kind: filter.kind,
      host: filter.host,
      states: filter.states,
      outcome: filter.outcome,
      since: timeOrNull(filter.since),
      until: timeOrNull(filter.until),
      login: filter.login,
    },
  };
}

/** A filter as the flags that would make it; empty for a filter that selects everything. */
export function filterText(filter: DeliveryFilter): string {
  const { login, taskId, kind, host, states, outcome, since, until } = filter;
  const flags: readonly (readonly [flag: string, value: string | null])[] = [
    ["task", taskId],
    ["kind", kind],
    ["host", host],
    ...(states ?? []).map((state) => ["state", state] as const),
    ["outcome", outcome],
    ["since", since === null ? null : timeText(since)],
    ["until", until === null ? null : timeText(until)],
    ["account", login],
  ];
  return flags.flatMap(([flag, value]) => (value === null ? [] : `--${flag} ${value}`)).join(" ");
}

/** Returns the reasons that hold up an order: its account is disabled, or pauses cover its deliveries. */
export async function orderObstacles(
  { filter: { login } }: RedeliveryOrder,
  { hosts }: DeliveryCount,
  store: Pick<Store, "findAccount" | "listDeliveryPauses">,
): Promise<readonly string[]> {
  const account = login === null ? null : await store.findAccount(login);
  const isDisabled = account !== null && account.disabledAt !== null;
  const remedy = `'postbackd admin account enable ${login}'`;
  const pauses = (await store.listDeliveryPauses()).filter((pause) => {
    // Without an account in the filter some of the deliveries may be of the account of a pause.
    const of = login ?? pause.login ?? "";
    return hosts.some(({ host }) => pauseOf([pause], { login: of, host }) !== null);
  });
  return [
    ...(isDisabled ? [`${login} is disabled: the order rests until ${remedy}`] : []),
    ...pauses.map((pause) => `paused: ${scopeText(pause)}; these deliveries wait for the resume`),
  ];
}
