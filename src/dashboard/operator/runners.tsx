import type { RunnerType } from "../../api/node.ts";
import { ANY_TASK, formatTaskSearch } from "../../domain/task/task-search.ts";
import { Count } from "../part/count.tsx";
import { Empty, Loaded } from "../part/notice.tsx";
import { None, Panel, ScreenHead } from "../part/panel.tsx";
import { type Column, Table } from "../part/table.tsx";
import { call } from "../shell/api.ts";
import { countText, durationText } from "../shell/format.ts";
import { useResource } from "../shell/resource.ts";
import { hrefOf, tasksPath } from "../shell/route.ts";
import { WorkerMissing } from "./worker-missing.tsx";
import { WorkerPanel } from "./worker-panel.tsx";

const POLL_MS = 10_000;

/** The runner of each type, and the workers. */
export function RunnersScreen() {
  const runners = useResource("runners", (load) => call("GET /v1/operator/runners", load), {
    everyMs: 2000,
    pollMs: POLL_MS,
  });
  return (
    <>
      <ScreenHead title="Runners &amp; workers" />
      <Loaded resource={runners}>
        {({ types, workers }) => (
          <div class="stack">
            {types
              .filter(({ has_worker: has }) => has === false)
              .map((type) => (
                <WorkerMissing key={type.name} type={type} workers={workers} />
              ))}
            <Types types={types} />
            <WorkerPanel workers={workers} types={types} />
          </div>
        )}
      </Loaded>
    </>
  );
}

function Types({ types }: { readonly types: readonly RunnerType[] }) {
  return (
    <Panel title="Types">
      {types.length === 0 ? (
        <NoTypes />
      ) : (
        <Table label="Types" columns={COLUMNS} rows={types} keyOf={({ name }) => name} />
      )}
    </Panel>
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

const COLUMNS: readonly Column<RunnerType>[] = [
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
    title: "Running tasks, and how many may run at once",
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
