import type { NodeOverview } from "../../api/node.ts";
import { Badge, Time } from "../part/figure.tsx";
import { Loaded, None, Panel, ScreenHead } from "../part/panel.tsx";
import { type Column, Table } from "../part/table.tsx";
import { call } from "../shell/api.ts";
import { countText } from "../shell/format.ts";
import { useResource } from "../shell/resource.ts";
import { DatabasePanel } from "./system.tsx";

const POLL_MS = 5000;

/** The daemons that share the database: what each does, and which have ended. */
export function NodesScreen() {
  const nodes = useResource("nodes", (load) => call("GET /v1/operator/nodes", load), {
    everyMs: 2000,
    pollMs: POLL_MS,
  });
  return (
    <>
      <ScreenHead title="Nodes" />
      <Loaded resource={nodes}>
        {({ nodes: all, database }) => (
          <div class="stack">
            <Nodes nodes={all} />
            {database !== null && <DatabasePanel database={database} />}
          </div>
        )}
      </Loaded>
    </>
  );
}

function Nodes({ nodes }: { readonly nodes: readonly NodeOverview[] }) {
  const alive = nodes.filter(({ ended_at: at }) => at === null);
  const ended = nodes.filter(({ ended_at: at }) => at !== null);
  return (
    <Panel title="Daemons of this database">
      <Table label="Nodes" columns={ALIVE} rows={alive} keyOf={({ id }) => id} />
      {ended.length > 0 && (
        <details class="fold">
          <summary>{countText(ended.length)} ended</summary>
          <Table label="Ended nodes" columns={ENDED} rows={ended} keyOf={({ id }) => id} />
        </details>
      )}
    </Panel>
  );
}

const WHO: readonly Column<NodeOverview>[] = [
  {
    name: "Node",
    cell: ({ id, name, answers }) => (
      <>
        <b class="mono" title={id}>
          {name}
        </b>
        {answers && <span class="none"> answers you</span>}
      </>
    ),
  },
  { name: "Version", cell: ({ version }) => <span class="mono">{version}</span> },
  { name: "Joined", cell: ({ joined_at: at }) => <Time at={at} /> },
  { name: "Heard", cell: ({ last_seen_at: at }) => <Time at={at} /> },
];

const ALIVE: readonly Column<NodeOverview>[] = [
  ...WHO,
  {
    name: "Runs",
    title: "Tasks that it runs itself; those of workers belong to no node",
    cell: ({ running }) => runsText(running),
  },
  {
    name: "Sends",
    title: "Webhooks under way",
    isNumber: true,
    cell: ({ sending }) => (sending === null ? "–" : countText(sending)),
  },
  {
    name: "Roles",
    title: "Work that the node does for all nodes",
    cell: ({ roles }) => (roles.length === 0 ? <None /> : roles.join(", ")),
  },
  {
    name: "Listens at",
    cell: ({ url }) => (url === null ? <None /> : <code class="clipped">{url}</code>),
  },
];

const ENDED: readonly Column<NodeOverview>[] = [
  ...WHO,
  {
    name: "Ended",
    cell: ({ ended_at: at, is_lost: isLost }) => (
      <>
        {isLost && <Badge state="lost" title="It was killed, or cut off from the database" />}{" "}
        <Time at={at} />
      </>
    ),
  },
];

function runsText(running: NodeOverview["running"]) {
  if (running === null || running.length === 0) return <None />;
  return running.map(({ type, runs }) => `${countText(runs)} ${type}`).join(", ");
}
