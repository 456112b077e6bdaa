import { DAY_MS } from "../../../domain/clock/duration.ts";
import type { NodeFacts, NodeRole, NodeSummary } from "../../cluster.ts";
import type { Sql } from "./sql.ts";

const LIST = `
  SELECT seq, name, version, joined_at AS "joinedAt", expires_at AS "expiresAt", ended_at AS "endedAt",
    facts_text AS "factsText",
    ARRAY(
      SELECT r.name FROM duties AS r
      WHERE r.node_seq = nodes.seq AND nodes.ended_at IS NULL AND r.until > $2 ORDER BY r.name
    ) AS roles
  FROM nodes
  WHERE (ended_at IS NULL OR ended_at > $1) AND NOT is_tool
  ORDER BY seq DESC`;

interface Row extends Pick<NodeSummary, "name" | "version" | "joinedAt" | "endedAt"> {
  readonly seq: number;
  readonly expiresAt: number;
  readonly factsText: string | null;
  readonly roles: readonly NodeRole[];
}

/** Lists the nodes that are alive and those that ended within the last day. */
export async function listNodes(
  sql: Sql,
  { now, liveMs }: { readonly now: number; readonly liveMs: number },
): Promise<readonly NodeSummary[]> {
  const rows = await sql.all<Row>(LIST, [now - DAY_MS, now]);
  return rows.map(({ seq, expiresAt, endedAt, factsText, ...row }) => ({
    ...row,
    id: String(seq),
    lastSeenAt: expiresAt - liveMs,
    endedAt,
    // A node that leaves ends before its time is over.
    isLost: endedAt !== null && endedAt > expiresAt,
    facts: toFacts(factsText),
  }));
}

// Only nodes write this column: beside their facts whether they are leaving, which those that tell nothing write too.
function toFacts(factsText: string | null): NodeFacts | null {
  if (factsText === null) return null;
  const { isLeaving: _, ...facts } = JSON.parse(factsText) as NodeFacts & { isLeaving?: boolean };
  return "sending" in facts ? facts : null;
}
