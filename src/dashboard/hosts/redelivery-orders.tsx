import type { RedeliveryFilter, RedeliveryOrder } from "../../api/search.ts";
import { Button } from "../part/control.tsx";
import { ask } from "../part/dialog.tsx";
import { Badge, Bar, Time, stateText } from "../part/figure.tsx";
import { Loaded, Panel } from "../part/panel.tsx";
import { type Column, Table } from "../part/table.tsx";
import { call } from "../shell/api.ts";
import { countText } from "../shell/format.ts";
import { useResource } from "../shell/resource.ts";
import { knownTotals, ordersGiven } from "./redelivery-dialog.tsx";

/** The redelivery orders, with the progress of each. */
export function RedeliveryOrders() {
  const orders = useResource(
    `orders ${ordersGiven.value}`,
    (load) => call("GET /v1/redeliveries", load),
    { pollMs: 5000 },
  );
  return (
    <Panel title="Redelivery orders">
      <Loaded resource={orders}>
        {({ redeliveries }) =>
          redeliveries.length === 0 ? (
            <p class="panel-body hint">
              None so far. When a receiver was down for longer than the retries last, redeliver what
              it missed: choose the time since when, and a rate that it can take.
            </p>
          ) : (
            <Table
              label="Redelivery orders"
              columns={[...COLUMNS, cancellation(orders.reload)]}
              rows={redeliveries}
              keyOf={({ id }) => id}
            />
          )
        }
      </Loaded>
    </Panel>
  );
}

const COLUMNS: readonly Column<RedeliveryOrder>[] = [
  { name: "Ordered", cell: (order) => <Time at={order.created_at} /> },
  { name: "What", wraps: true, cell: ({ filter }) => <bdi>{whatText(filter)}</bdi> },
  { name: "Failed since", cell: ({ filter }) => <Time at={filter.since} /> },
  { name: "A second", isNumber: true, cell: (order) => countText(order.per_second) },
  { name: "Redelivered", cell: (order) => <Progress order={order} /> },
  {
    name: "State",
    cell: (order) => (
      <>
        <Badge state={wordOf(order)} /> {order.ended_at !== null && <Time at={order.ended_at} />}
      </>
    ),
  },
];

function cancellation(reload: () => void): Column<RedeliveryOrder> {
  return {
    name: "",
    cell: (order) =>
      order.ended_at === null && (
        <Button press={() => askCancellation(order, reload)}>Cancel…</Button>
      ),
  };
}

function askCancellation({ id, redelivered }: RedeliveryOrder, done: () => void): void {
  ask({
    title: "Cancel this redelivery?",
    verb: "Cancel the redelivery",
    otherwise: "Let it go on",
    isDanger: true,
    text: (
      <p>
        The deliveries that were sent again go on ({countText(redelivered)} so far). The others stay
        failed.
      </p>
    ),
    work: () => call("DELETE /v1/redeliveries/:order_id", { params: { order_id: id } }),
    announcement: "The redelivery is cancelled.",
    done,
  });
}

function wordOf({ ended_at: endedAt, is_cancelled: isCancelled }: RedeliveryOrder): string {
  if (isCancelled) return "cancelled";
  return endedAt === null ? "running" : "completed";
}

function Progress({ order }: { readonly order: RedeliveryOrder }) {
  const { id, redelivered, ended_at: endedAt } = order;
  const total = knownTotals.value.get(id);
  if (total === undefined || total === 0 || endedAt !== null) {
    return <span class="number">{countText(redelivered)}</span>;
  }
  // More may have failed since the count.
  const text = `${countText(redelivered)} of ${countText(Math.max(total, redelivered))}`;
  return (
    <span class="stack stack-tight progress">
      <Bar share={redelivered / total} label={text} />
      <span class="number">{text}</span>
    </span>
  );
}

function whatText({ login, host, kind, states }: RedeliveryFilter): string {
  const parts = [
    host ?? "every host",
    ...(login ? [`account ${login}`] : []),
    ...(kind ? [`${kind}s`] : []),
    (states ?? []).map(stateText).join(" or "),
  ];
  return parts.filter((part) => part !== "").join(", ");
}
