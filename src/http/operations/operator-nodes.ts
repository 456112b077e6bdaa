import { nodeDocument } from "../../admin/node.ts";
import type { DatabaseOverview, NodeOverview } from "../../api/node.ts";
import {
  databaseWarnings,
  type DatabaseHealth,
  type HeldSnapshot,
} from "../../domain/stats/health.ts";
import type { NodeSummary } from "../../store/store.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";

export function nodeList({ store, nodeId }: OperationDeps): Operation {
  return defineOperation("GET /v1/operator/nodes", {
    access: "operator",
    doc: {
      id: "listNodes",
      group: "Operator",
      summary: "List nodes",
      description:
        "The daemons that share the database, and those that ended within the last day, newest first; what each says of " +
        "itself is some seconds old. A daemon with a database file of its own is the one node. With them the health of " +
        "the server of their database, as far as the daemons may see it.",
    },
    async handle() {
      const [nodes, health] = await Promise.all([store.listNodes(), store.findDatabaseHealth()]);
      return {
        fields: {
          nodes: nodes.map((node) => toShown(node, nodeId())),
          database: health && toShownDatabase(health),
        },
      };
    },
  });
}

function toShown(node: NodeSummary, self: string): NodeOverview {
  const { id, name, version, url, ...rest } = nodeDocument(node);
  return { id, name, version, url, answers: id === self, ...rest };
}

function toShownDatabase(health: DatabaseHealth): DatabaseOverview {
  const { version, bytes, connections, oldestSnapshot, standbys, deadRows } = health;
  return {
    version,
    bytes,
    connections,
    oldest_snapshot: oldestSnapshot && toShownSnapshot(oldestSnapshot),
    standbys: standbys.map(({ syncState, lagBytes, lagMs, ...standby }) => ({
      ...standby,
      sync_state: syncState,
      lag_bytes: lagBytes,
      lag_ms: lagMs,
    })),
    commits_wait: health.commitsWait,
    dead_rows: deadRows,
    warnings: databaseWarnings(health).map(({ text }) => text),
  };
}

function toShownSnapshot({
  ageMs,
  ...snapshot
}: HeldSnapshot): DatabaseOverview["oldest_snapshot"] {
  return { ...snapshot, age_ms: ageMs };
}
