import type { NodeOverview } from "../api/node.ts";
import { timeOrNull, timeText } from "../domain/clock/time.ts";
import type { NodeSummary } from "../store/store.ts";
import { defineAdminCommand } from "./admin-command.ts";
import { defineCommand } from "./command.ts";
import { CommandFailure } from "./failure.ts";
import { tableLines, type Answer, type Columns } from "./print.ts";

const NAME = "postbackd admin node";

const list = defineAdminCommand({
  description: "List the daemons that share a database, newest first",
  example: `${NAME} list`,
  notes:
    "Those that ended within the last day are listed too. What a node says of itself is some seconds old.",
  args: {},
  async run(_given, { store, config }) {
    if (config.server === null) {
      throw new CommandFailure(
        `${config.database} is a file, which one daemon serves alone: 'postbackd health' asks it`,
      );
    }
    return nodesAnswer(await store.listNodes());
  },
});

export const nodeCommand = defineCommand({
  description: "List the daemons that share a database on a server",
  example: `${NAME} list`,
  subCommands: { list },
});

/** The nodes as `admin node list` prints them. */
export function nodesAnswer(nodes: readonly NodeSummary[]): Answer {
  const none = "No daemon has served this database within the last day.";
  return {
    document: { nodes: nodes.map(nodeDocument) },
    lines: nodes.length === 0 ? [none] : tableLines(nodes, COLUMNS),
  };
}

function nodeDocument({ facts, ...node }: NodeSummary): Omit<NodeOverview, "answers"> {
  return {
    id: node.id,
    name: node.name,
    version: node.version,
    url: facts?.url ?? null,
    joined_at: timeText(node.joinedAt),
    last_seen_at: timeText(node.lastSeenAt),
    ended_at: timeOrNull(node.endedAt),
    is_lost: node.isLost,
    roles: node.roles,
    running: facts?.running ?? null,
    sending: facts?.sending ?? null,
  };
}

const COLUMNS: Columns<NodeSummary> = {
  NAME: ({ name }) => name,
  URL: ({ facts }) => facts?.url ?? null,
  VERSION: ({ version }) => version,
  JOINED: ({ joinedAt }) => timeText(joinedAt),
  "LAST SEEN": ({ lastSeenAt }) => timeText(lastSeenAt),
  ENDED: ({ endedAt, isLost }) => endedAt && `${timeText(endedAt)}${isLost ? " (lost)" : ""}`,
  RUNNING: ({ facts }) => facts && facts.running.reduce((sum, { runs }) => sum + runs, 0),
  SENDING: ({ facts }) => facts && facts.sending,
  ROLES: ({ roles }) => roles.join(","),
};
