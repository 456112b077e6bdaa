import type { NodeOverview } from "../../api/node.ts";
import { Badge, Time } from "../part/figure.tsx";
import { Fold, None, Panel, Screen } from "../part/panel.tsx";
import { type Column, Table } from "../part/table.tsx";
import { countText } from "../shell/format.ts";
import { useRead } from "../shell/resource.ts";
import { DatabasePanel } from "./system.tsx";

/** The daemons that share the database: what each does, and which have ended. */
export function NodesScreen() {
  const resource = useRead("GET /v1/operator/nodes", {}, { everyMs: 2000, pollMs: 5000 });
  return (
    <Screen title="Nodes" resource={resource}>
      {({ nodes, database }) => (
        <>
          <Nodes nodes={nodes} />
          {database !== null && <DatabasePanel database={database} />}
        </>
      )}
    </Screen>
  );
}

function Nodes({ nodes }: { readonly nodes: readonly NodeOverview[] }) {
  const alive = nodes.filter(({ ended_at: at }) => at === null);
  const ended = nodes.filter(({ ended_at: at }) => at !== null);
  return (
    <Panel title="Daemons of this database">
      <Table label="Nodes" columns={ALIVE} rows={alive} keyOf={({ id }) => id} />
      {ended.length > 0 && (
        <Fold title={`${countText(ended.length)} ended`}>
          <Table label="Ended nodes" columns={ENDED} rows={ended} keyOf={({ id }) => id} />
        </Fold>
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
    title: "Tasks that the node runs itself, without the tasks of workers",
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
