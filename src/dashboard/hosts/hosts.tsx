import type { AnswerOf } from "../../api/operations.ts";
import type { HostOverview } from "../../api/stats.ts";
import { ANY_TASK, formatTaskSearch } from "../../domain/task/task-search.ts";
import { Button, FilterField } from "../part/control.tsx";
import { openDialog } from "../part/dialog.tsx";
import { Badge, Count, Time, stateText } from "../part/figure.tsx";
import { List, useStableOrder } from "../part/list.tsx";
import { Empty, None, Screen } from "../part/panel.tsx";
import { DAY, MONTH, RangeField, WEEK, rangeIn, sinceOf } from "../part/range.tsx";
import type { Column } from "../part/table.tsx";
import { call } from "../shell/api.ts";
import { durationText, percentText } from "../shell/format.ts";
import { useResource } from "../shell/resource.ts";
import { go, hrefOf, route, tasksPath } from "../shell/route.ts";
import { RedeliveryDialog } from "./redelivery-dialog.tsx";
import { RedeliveryOrders } from "./redelivery-orders.tsx";

const RANGES = { ranges: [DAY, WEEK, MONTH], standard: DAY };
// No report comes of a pause.
const TIMING = { everyMs: 5000, pollMs: 15_000 };

/** Every host: its figures, its last error, and a way to redeliver what did not arrive. */
export function HostsScreen() {
  const range = rangeIn(RANGES.ranges, RANGES.standard);
  const resource = useResource(
    range.value,
    (load) => call("GET /v1/stats/hosts", { ...load, query: { since: sinceOf(range) } }),
    TIMING,
  );
  return (
    <Screen
      title="Hosts"
      resource={resource}
      tools={
        <>
          <FilterField label="Filter hosts" />
          <RangeField {...RANGES} />
          <Button isLarge press={() => redeliver("")}>
            Redeliver failed…
          </Button>
        </>
      }
      below={<RedeliveryOrders />}
    >
      {(page) => <Hosts page={page} range={range.value} />}
    </Screen>
  );
}

/** Opens the form for a redelivery to a host; "" is every host. */
function redeliver(host: string): void {
  openDialog(<RedeliveryDialog host={host} />);
}

interface HostsProps {
  readonly page: AnswerOf<"GET /v1/stats/hosts">;
  readonly range: string;
}

function Hosts({ page: { hosts, more }, range }: HostsProps) {
  const part = (route.value.query.get("q") ?? "").trim().toLowerCase();
  const found = hosts.filter(({ host }) => host.toLowerCase().includes(part));
  const { rows, freshCount, showFresh } = useStableOrder({
    rows: found,
    keyOf: hostOf,
    list: `${range} ${part}`,
  });
  return (
    <List
      label="Hosts"
      noun="host"
      keys={[
        { key: "Enter", does: "Tasks of the host", run: ({ host }) => go(tasksOf(host)) },
        {
          key: "r",
          does: "Redeliver failed webhooks to the host",
          run: ({ host }) => redeliver(host),
        },
      ]}
      columns={COLUMNS}
      rows={rows}
      keyOf={hostOf}
      empty={
        hosts.length === 0 ? <NoHost /> : <Empty title={`No host’s name contains “${part}”.`} />
      }
      head={
        (freshCount > 0 || more) && (
          <div class="row pad rule-below panel-head">
            {more && <p class="hint">The worst {hosts.length} hosts; there are more.</p>}
            {freshCount > 0 && <Button press={showFresh}>{freshCount} new</Button>}
          </div>
        )
      }
    />
  );
}

function hostOf({ host }: HostOverview): string {
  return host;
}

function NoHost() {
  return (
    <Empty title="Nothing was delivered in that time.">
      <p>
        Post a task with a <code>postback_url</code> or <code>pingback_url</code>: the host it names
        appears here with its first attempt.
      </p>
      <p>
        <a href={hrefOf("/")}>How to begin</a>
      </p>
    </Empty>
  );
}

const COLUMNS: readonly Column<HostOverview>[] = [
  {
    name: "Host",
    cell: ({ host, is_paused: isPaused }) => (
      <>
        <a class="clipped mono" href={hrefOf(tasksOf(host))} title={host}>
          <bdi>{host}</bdi>
        </a>{" "}
        {isPaused && <Badge state="paused" />}
      </>
    ),
  },
  { name: "Attempts", isNumber: true, cell: ({ attempts }) => <Count count={attempts} /> },
  {
    name: "Success",
    title: "Attempts with a 2xx response",
    isNumber: true,
    cell: ({ success }) => <span class={successClass(success)}>{percentText(success)}</span>,
  },
  {
    name: "Retrying",
    title: "Deliveries that failed and will be tried again",
    isNumber: true,
    cell: (row) => <Failures row={row} state="retrying" />,
  },
  { name: "Given up", isNumber: true, cell: (row) => <Failures row={row} state="given_up" /> },
  { name: "Refused", isNumber: true, cell: (row) => <Failures row={row} state="refused" /> },
  { name: "p50", isNumber: true, isMinor: true, cell: (row) => durationText(row.p50_ms) },
  { name: "p95", isNumber: true, isMinor: true, cell: (row) => durationText(row.p95_ms) },
  { name: "Last error", cell: (row) => <HostError error={row.last_error} /> },
  { name: "When", isMinor: true, cell: (row) => <Time at={row.last_error?.at ?? null} /> },
  {
    name: "",
    cell: ({ host, given_up: givenUp, refused }) =>
      givenUp + refused > 0 && (
        <Button label={`Redeliver failed deliveries to ${host}`} press={() => redeliver(host)}>
          Redeliver…
        </Button>
      ),
  },
];

function successClass(success: number | null): string | undefined {
  if (success === null || success >= 0.99) return undefined;
  return success < 0.9 ? "tone-bad" : "tone-warn";
}

type Failed = "retrying" | "given_up" | "refused";

function Failures({ row, state }: { readonly row: HostOverview; readonly state: Failed }) {
  return (
    <Count count={row[state]} what={stateText(state)} href={hrefOf(tasksOf(row.host, [state]))} />
  );
}

function tasksOf(host: string, deliveries: readonly Failed[] | null = null): string {
  return tasksPath(formatTaskSearch({ ...ANY_TASK, host, deliveries }));
}

/** The last error of a host, with a link to its task. */
function HostError({ error }: { readonly error: HostOverview["last_error"] }) {
  if (error === null) return <None />;
  const { http_status: status, task_id: taskId } = error;
  const text = sentence(error.error, status);
  const look = "clipped host-error";
  return taskId === null ? (
    <span class={look} title={`${text} (the task has been erased)`}>
      {text}
    </span>
  ) : (
    <a class={look} href={hrefOf(`/tasks/${taskId}`)} title={`${text}. Opens the task.`}>
      {text}
    </a>
  );
}

function sentence(error: string | null, status: number | null): string {
  if (error === null) return status === null ? "Failed" : `Answered HTTP ${status}`;
  // The number comes first: the end of the text may be cut.
  if (status !== null) return `HTTP ${status}, ${error}`;
  return error.slice(0, 1).toUpperCase() + error.slice(1);
}
