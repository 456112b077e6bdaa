import type { RunnerType, WorkerOverview } from "../../api/node.ts";
import { Command } from "../part/command.tsx";
import { Count } from "../part/count.tsx";
import { Empty } from "../part/notice.tsx";
import { None, Panel } from "../part/panel.tsx";
import { type Column, Table } from "../part/table.tsx";
import { Time } from "../part/time.tsx";
import { countText } from "../shell/format.ts";
import { tokenCommand, workerCommand } from "./worker-missing.tsx";

interface WorkerPanelProps {
  readonly workers: readonly WorkerOverview[];
  readonly types: readonly RunnerType[];
}

/** The workers' tokens, and when each was last used. */
export function WorkerPanel({ workers, types }: WorkerPanelProps) {
  const active = workers.filter(({ revoked_at: at }) => at === null);
  const revoked = workers.filter(({ revoked_at: at }) => at !== null);
  const type = types.find(({ kind }) => kind === "worker")?.name ?? null;
  return (
    <Panel title="Workers">
      {active.length === 0 ? <NoWorkers type={type} /> : <WorkerTable workers={active} />}
      {revoked.length > 0 && (
        <details class="fold">
          <summary>{countText(revoked.length)} revoked</summary>
          <WorkerTable workers={revoked} isRevoked />
        </details>
      )}
    </Panel>
  );
}

function NoWorkers({ type }: { readonly type: string | null }) {
  if (type === null) {
    return (
      <Empty title="There is no worker, and no type needs one.">
        <p>
          A worker is a process of your own, on any machine, that claims tasks over HTTP. To have
          one, give a type <code>runner = "worker"</code> in <code>postbackd.toml</code>.
        </p>
      </Empty>
    );
  }
  return (
    <Empty title="There is no worker yet.">
      <p>Make a token on the daemon’s machine, then start the worker with it on any machine:</p>
      <Command text={tokenCommand(type)} />
      <Command text={workerCommand(type)} />
    </Empty>
  );
}

interface WorkerTableProps {
  readonly workers: readonly WorkerOverview[];
  readonly isRevoked?: boolean;
}

function WorkerTable({ workers, isRevoked = false }: WorkerTableProps) {
  const last: Column<WorkerOverview> = isRevoked
    ? { name: "Revoked", cell: (worker) => <Time at={worker.revoked_at} /> }
    : { name: "Made", cell: (worker) => <Time at={worker.created_at} /> };
  return (
    <Table
      label={isRevoked ? "Revoked workers" : "Workers"}
      columns={[...COLUMNS, last]}
      rows={workers}
      keyOf={(worker) => `${worker.name} ${worker.created_at}`}
    />
  );
}

const COLUMNS: readonly Column<WorkerOverview>[] = [
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
