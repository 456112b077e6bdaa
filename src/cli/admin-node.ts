import { nodeDocument } from "../admin/node.ts";
import type { NodeSummary } from "../store/store.ts";
import { defineAdminCommand } from "./admin-command.ts";
import { defineCommand } from "./command.ts";
import { CommandFailure } from "./failure.ts";
import { tableLines, type Answer } from "./print.ts";

const NAME = "postbackd admin node";

const list = defineAdminCommand({
  description: "List the daemons that share a database, newest first",
  example: `${NAME} list`,
  notes:
    "The list includes daemons that ended within the last day. Reports of nodes are some seconds old.",
  args: {},
  async run(_given, { store, config }) {
    if (config.server === null) {
      throw new CommandFailure(
        `${config.database} is a file, which one daemon serves alone: 'postbackd health' checks it`,
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

export function nodesAnswer(found: readonly NodeSummary[]): Answer {
  const nodes = found.map(nodeDocument);
  const rows = nodes.map(({ name, url, version, joined_at, last_seen_at, ...node }) => ({
    ...{ name, url, version, joined_at, last_seen_at },
    ended_at: node.is_lost ? `${node.ended_at} (lost)` : node.ended_at,
    running: node.running && node.running.reduce((sum, { runs }) => sum + runs, 0),
    sending: node.sending,
    roles: node.roles,
  }));
  const none = ["No daemon has served this database within the last day."];
  return { document: { nodes }, lines: nodes.length === 0 ? none : tableLines(rows) };
}
