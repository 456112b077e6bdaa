import type { NodeOverview } from "../api/node.ts";
import { timeOrNull, timeText } from "../domain/clock/time.ts";
import type { NodeSummary } from "../store/store.ts";

/** A daemon of a cluster; its own reports are some seconds old. */
export function nodeDocument({ facts, ...node }: NodeSummary): Omit<NodeOverview, "answers"> {
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
