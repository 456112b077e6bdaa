import { useState } from "preact/hooks";

import type { AnswerOf } from "../../api/operations.ts";
import type { HostOverview } from "../../api/stats.ts";
import { DAY_MS } from "../../domain/clock/duration.ts";
import { ANY_TASK, formatTaskSearch } from "../../domain/task/task-search.ts";
import { Button, FilterField, Segments } from "../part/control.tsx";
import { Badge, Count, Time, stateText } from "../part/figure.tsx";
import { Empty, Loaded, None, ScreenHead } from "../part/panel.tsx";
import { type Column, Table } from "../part/table.tsx";
import { call } from "../shell/api.ts";
import { durationText, percentText } from "../shell/format.ts";
import { useIdCursor, useKeys } from "../shell/keyboard.ts";
import { useResource } from "../shell/resource.ts";
import { go, hrefOf, route, setQuery, tasksPath } from "../shell/route.ts";
import { useStableOrder } from "../shell/stable-order.ts";
import { RedeliveryDialog } from "./redelivery-dialog.tsx";
import { RedeliveryOrders } from "./redelivery-orders.tsx";

const RANGES = [
  { value: "24h", text: "24 h", ms: DAY_MS },
  { value: "7d", text: "7 d", ms: 7 * DAY_MS },
  { value: "30d", text: "30 d", ms: 30 * DAY_MS },
] as const;

const REFRESH_MS = 5000;
// No report comes of a pause.
const POLL_MS = 15_000;

/** Every host: its figures, its last error, and a way to redeliver what did not arrive. */
export function HostsScreen() {
  const asked = route.value.query.get("range");
  const range = RANGES.find(({ value }) => value === asked) ?? RANGES[0];
  // Null: closed; "": every host.
  const [redelivers, setRedelivers] = useState<string | null>(null);
  const hosts = useResource(
    range.value,
    (load) => {
      const since = new Date(Date.now() - range.ms).toISOString();
      return call("GET /v1/stats/hosts", { ...load, query: { since } });
    },
    { everyMs: REFRESH_MS, pollMs: POLL_MS },
  );
  return (
    <>
      <ScreenHead title="Hosts">
        <FilterField label="Part of a host's name" />
        <Segments
          label="Time"
          options={RANGES}
          value={range.value}
          choose={(value) => setQuery({ range: value === "24h" ? null : value })}
        />
        <Button isLarge press={() => setRedelivers("")}>
          Redeliver failed…
        </Button>
      </ScreenHead>
      <div class="stack">
        <Loaded resource={hosts}>
          {(page) => <Hosts page={page} range={range.value} redeliver={setRedelivers} />}
        </Loaded>
        <RedeliveryOrders />
      </div>
      {redelivers !== null && (
        <RedeliveryDialog host={redelivers} close={() => setRedelivers(null)} />
      )}
    </>
  );
}

interface HostsProps {
  readonly page: AnswerOf<"GET /v1/stats/hosts">;
  readonly range: string;
  readonly redeliver: (host: string) => void;
}

function Hosts({ page, range, redeliver }: HostsProps) {
  const part = (route.value.query.get("q") ?? "").trim().toLowerCase();
  const found = page.hosts.filter(({ host }) => host.toLowerCase().includes(part));
  const order = useStableOrder({ rows: found, keyOf: hostOf, list: `${range} ${part}` });
  const { current, keys } = useIdCursor(order.rows.map(hostOf), "host");
  const onCurrent = (run: (host: string) => void) => () => {
    if (current !== null) run(current);
  };
  useKeys([
    ...keys,
    { key: "Enter", does: "Tasks of the host", run: onCurrent((host) => go(tasksOf(host))) },
    { key: "r", does: "Redeliver what failed at the host", run: onCurrent(redeliver) },
  ]);
  if (page.hosts.length === 0) return <NoHosts />;
  if (order.rows.length === 0) {
    return (
      <div class="panel">
        <Empty title={`No host’s name contains “${part}”.`} />
      </div>
    );
  }
  return (
    <section class="panel" aria-label="Hosts">
      {(order.freshCount > 0 || page.more) && (
        <div class="panel-head">
          {page.more && <p class="hint">The worst {page.hosts.length} hosts; there are more.</p>}
          {order.freshCount > 0 && <Button press={order.showFresh}>{order.freshCount} new</Button>}
        </div>
      )}
      <Table
        label="Hosts"
        columns={[
          ...COLUMNS,
          { name: "", cell: (row) => <Redeliver row={row} redeliver={redeliver} /> },
        ]}
        rows={order.rows}
        keyOf={hostOf}
        current={current}
      />
    </section>
  );
}

function hostOf({ host }: HostOverview): string {
  return host;
}

function NoHosts() {
  return (
    <div class="panel">
      <Empty title="Nothing was delivered in that time.">
        <p>
          Post a task with a <code>postback_url</code> or <code>pingback_url</code>: the host it
          names appears here with its first attempt.
        </p>
        <p>
          <a href={hrefOf("/")}>How to begin</a>
        </p>
      </Empty>
    </div>
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
    title: "Attempts that were answered with 2xx",
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
];

function successClass(success: number | null): string | undefined {
  if (success === null || success >= 0.99) return undefined;
  return success < 0.9 ? "is-bad" : "is-warn";
}

type Failed = "retrying" | "given_up" | "refused";

function Failures({ row, state }: { readonly row: HostOverview; readonly state: Failed }) {
  return (
    <Count count={row[state]} what={stateText(state)} href={hrefOf(tasksOf(row.host, [state]))} />
  );
}

interface RedeliverProps {
  readonly row: HostOverview;
  readonly redeliver: (host: string) => void;
}

function Redeliver({ row: { host, given_up: givenUp, refused }, redeliver }: RedeliverProps) {
  if (givenUp + refused === 0) return null;
  return (
    <Button label={`Redeliver failed deliveries to ${host}`} press={() => redeliver(host)}>
      Redeliver…
    </Button>
  );
}

function tasksOf(host: string, deliveries: readonly Failed[] | null = null): string {
  return tasksPath(formatTaskSearch({ ...ANY_TASK, host, deliveries }));
}

/** The last error of a host, with a link to its task. */
export function HostError({ error }: { readonly error: HostOverview["last_error"] }) {
  if (error === null) return <None />;
  const { http_status: status, task_id: taskId } = error;
  const text = sentence(error.error, status);
  if (taskId === null) {
    return (
      <span class="clipped host-error" title={`${text} (the task has been erased)`}>
        {text}
      </span>
    );
  }
  return (
    <a
      class="clipped host-error"
      href={hrefOf(`/tasks/${taskId}`)}
      title={`${text}. Opens the task.`}
    >
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
