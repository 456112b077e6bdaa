import type { RunnerType, WorkerOverview } from "../../api/node.ts";
import { ANY_TASK, formatTaskSearch } from "../../domain/task/task-search.ts";
import { Command } from "../part/control.tsx";
import { Count, Time } from "../part/figure.tsx";
import { Empty, Fold, None, Panel, Screen } from "../part/panel.tsx";
import { type Column, Table } from "../part/table.tsx";
import { countText, durationText } from "../shell/format.ts";
import { useRead } from "../shell/resource.ts";
import { hrefOf, tasksPath } from "../shell/route.ts";

export function RunnersScreen() {
  const resource = useRead("GET /v1/operator/runners", {}, { everyMs: 2000, pollMs: 10_000 });
  return (
    <Screen title="Runners &amp; workers" resource={resource}>
      {({ types, workers }) => (
        <>
          {types
            .filter(({ has_worker: has }) => has === false)
            .map((type) => (
              <WorkerMissing key={type.name} type={type} workers={workers} />
            ))}
          <Panel title="Types">
            {types.length === 0 ? (
              <NoTypes />
            ) : (
              <Table label="Types" columns={TYPE_COLUMNS} rows={types} keyOf={({ name }) => name} />
            )}
          </Panel>
          <WorkerPanel workers={workers} types={types} />
        </>
      )}
    </Screen>
  );
}

function NoTypes() {
  return (
    <Empty title="No type is configured.">
      <p>
        Name one in <code>postbackd.toml</code>, and start the daemon again:
      </p>
      <pre class="code-block">{'[types.resize]\ncommand = ["python3", "resize.py"]'}</pre>
    </Empty>
  );
}

interface WorkersProps {
  readonly workers: readonly WorkerOverview[];
  readonly types: readonly RunnerType[];
}

function WorkerPanel({ workers, types }: WorkersProps) {
  const active = workers.filter(({ revoked_at: at }) => at === null);
  const revoked = workers.filter(({ revoked_at: at }) => at !== null);
  const type = types.find(({ kind }) => kind === "worker")?.name ?? null;
  return (
    <Panel title="Workers">
      {active.length === 0 ? (
        <NoWorkers type={type} />
      ) : (
        <Table label="Workers" columns={ACTIVE} rows={active} keyOf={workerKey} />
      )}
      {revoked.length > 0 && (
        <Fold title={`${countText(revoked.length)} revoked`}>
          <Table label="Revoked workers" columns={REVOKED} rows={revoked} keyOf={workerKey} />
        </Fold>
      )}
    </Panel>
  );
}

function workerKey({ name, created_at: at }: WorkerOverview): string {
  return `${name} ${at}`;
}

function NoWorkers({ type }: { readonly type: string | null }) {
  if (type === null) {
    return (
      <Empty title="No worker exists, and no type needs one.">
        <p>
          A worker is a process of your own, on any machine, that claims tasks over HTTP. To have
          one, give a type <code>runner = "worker"</code> in <code>postbackd.toml</code>.
        </p>
      </Empty>
    );
  }
  return (
    <Empty title="No worker exists yet.">
      <p>Make a token on the daemon’s machine, then start the worker with it on any machine:</p>
      <Command text={tokenCommand(type)} />
      <Command text={workerCommand(type)} />
    </Empty>
  );
}

const WORKER_COLUMNS: readonly Column<WorkerOverview>[] = [
  { name: "Worker", cell: ({ name }) => <b class="clipped">{name}</b> },
  { name: "Types", wraps: true, cell: ({ types }) => <code>{types.join(", ")}</code> },
  { name: "Token", cell: (worker) => <code>pbd_work_…{worker.last_four}</code> },
  {
    name: "Last seen",
    cell: ({ last_seen_at: at }) => (at === null ? <None text="never" /> : <Time at={at} />),
  },
  {
    name: "Leases",
    title: "Tasks that it holds",
    isNumber: true,
    cell: ({ leases }) => <Count count={leases} />,
  },
];

const ACTIVE: readonly Column<WorkerOverview>[] = [
  ...WORKER_COLUMNS,
  { name: "Made", cell: (worker) => <Time at={worker.created_at} /> },
];

const REVOKED: readonly Column<WorkerOverview>[] = [
  ...WORKER_COLUMNS,
  { name: "Revoked", cell: (worker) => <Time at={worker.revoked_at} /> },
];

interface WorkerMissingProps extends Pick<WorkersProps, "workers"> {
  readonly type: RunnerType;
}

/** Explains how to start a worker, where tasks wait for one and none has called. */
function WorkerMissing({ type, workers }: WorkerMissingProps) {
  const { name, waiting, waiting_is_more: isMore, oldest_waiting_ms: oldestMs } = type;
  const hasToken = workers.some(
    ({ types, revoked_at: revokedAt }) => revokedAt === null && types.includes(name),
  );
  return (
    <div class="stack pad wraps notice tone-warn" role="status">
      <p>
        <b>No worker connected for {name}.</b> {countText(waiting)}
        {isMore && "+"} {waiting === 1 && !isMore ? "task waits" : "tasks wait"}
        {oldestMs !== null && `, the oldest for ${durationText(oldestMs)}`}, and no worker was heard
        in the last minute. Start one{hasToken ? "" : ", with a token made for it"}:
      </p>
      {!hasToken && <Command text={tokenCommand(name)} />}
      <Command text={workerCommand(name)} />
    </div>
  );
}

function tokenCommand(type: string): string {
  return `postbackd admin worker create ${type}-1 --type ${type}`;
}

function workerCommand(type: string): string {
  const { origin, protocol, hostname } = globalThis.location;
  const isLoopback = /^(?:localhost|.*\.localhost|127\..*|\[::1\])$/.test(hostname);
  const insecure = protocol === "http:" && !isLoopback ? " --insecure-http" : "";
  return `POSTBACKD_TOKEN=pbd_work_… postbackd worker --url ${origin} --type ${type}${insecure} -- PROGRAM`;
}

const TYPE_COLUMNS: readonly Column<RunnerType>[] = [
  { name: "Type", cell: ({ name }) => <b class="mono">{name}</b> },
  { name: "Kind", cell: ({ kind }) => kind },
  {
    name: "What runs",
    cell: ({ runs }) =>
      runs === null ? (
        <None />
      ) : (
        <code class="clipped" title={runs}>
          {runs}
        </code>
      ),
  },
  {
    name: "Running",
    title: "Running tasks and their limit",
    isNumber: true,
    cell: ({ name, running, concurrency }) => (
      <>
        <Count count={running} what="running" href={tasksOf(name, "running")} />
        <span class="none"> of {concurrency === null ? "any" : countText(concurrency)}</span>
      </>
    ),
  },
  {
    name: "Waiting",
    title: "Queued tasks that may start now",
    isNumber: true,
    cell: ({ name, waiting, waiting_is_more: isMore }) => (
      <Count count={waiting} what="waiting" href={tasksOf(name, "waiting")} isMore={isMore} />
    ),
  },
  { name: "Oldest", isNumber: true, cell: (row) => durationText(row.oldest_waiting_ms) },
  {
    name: "Idle workers",
    title: "Workers' requests that wait for a task",
    isNumber: true,
    cell: ({ workers_waiting: idle }) => (idle === null ? "–" : countText(idle)),
  },
  { name: "Timeout", isNumber: true, cell: (row) => durationText(row.timeout_ms) },
  { name: "Lease", isNumber: true, cell: (row) => durationText(row.lease_ms) },
  { name: "Retries", isNumber: true, cell: ({ retries }) => countText(retries) },
];

function tasksOf(type: string, state: "running" | "waiting"): string {
  return hrefOf(tasksPath(formatTaskSearch({ ...ANY_TASK, type, states: [state] })));
}
