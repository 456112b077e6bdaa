import type { NodeOverview } from "../../api/node.ts";
import { timeOrNull, timeText } from "../../domain/clock/time.ts";
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
        "itself is some seconds old. A daemon with a database file of its own is the one node.",
    },
    async handle() {
      const nodes = await store.listNodes();
      return { fields: { nodes: nodes.map((node) => toShown(node, nodeId())) } };
    },
  });
}

function toShown({ facts, ...node }: NodeSummary, self: string): NodeOverview {
  return {
    id: node.id,
    name: node.name,
    version: node.version,
    url: facts?.url ?? null,
    answers: node.id === self,
    joined_at: timeText(node.joinedAt),
    last_seen_at: timeText(node.lastSeenAt),
    ended_at: timeOrNull(node.endedAt),
    duties: node.duties,
    running: facts?.running ?? null,
    sending: facts?.sending ?? null,
  };
}
