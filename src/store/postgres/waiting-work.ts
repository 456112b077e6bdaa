import type { Lane, Store } from "../store.ts";
import { COMMIT_MS_MAX } from "./floor-times.ts";
import type { ReadSql } from "./machine/sql.ts";
import type { NodeMemory } from "./node-memory.ts";
import { partColumns, waitsAboveFloor, waitsAnywhere } from "./queue-floors.ts";

/** Work that other nodes left to this one, looked for once a second: with hints or without. */

// A seek for each part of the accounts of each type.
export const FIND_WAITING_TYPES = `
  SELECT DISTINCT s.type
  FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) AS s (type, above, up_to, floor)
  WHERE CASE WHEN s.floor IS NULL THEN ${waitsAnywhere("s.type")} ELSE ${waitsAboveFloor("s.type")} END`;

// Reads what became due in the interval: with a scan each second, about what one second brings. What waits has no node:
// said this way, `outbox_by_time` is the only index that serves.
export const LIST_DUE_LANES = `
  SELECT account_seq AS "accountId", host, min(due_at) FILTER (WHERE retry = 0) AS "freshDueAt",
    min(due_at) FILTER (WHERE retry > 0) AS "retryDueAt"
  FROM outbox AS o
  WHERE node_seq IS NULL AND due_at > $1 AND due_at <= $2
    AND NOT EXISTS (SELECT 1 FROM accounts AS a WHERE a.seq = o.account_seq AND a.disabled_at IS NOT NULL)
  GROUP BY account_seq, host`;

export function waitingWorkReads(sql: ReadSql, { queueFloors, laneFloors }: NodeMemory) {
  return {
    async findWaitingTypes(types) {
      const parts = types.flatMap((type) =>
        queueFloors.partsOf(type).map((part) => ({ type, part })),
      );
      const rows = await sql.all<{ type: string }>(FIND_WAITING_TYPES, [
        parts.map(({ type }) => type),
        ...partColumns(parts.map(({ part }) => part)),
      ]);
      const waiting = new Set(rows.map(({ type }) => type));
      return types.filter((type) => waiting.has(type));
    },

    async listDueLanes({ since, until }) {
      const lanes = await sql.all<Lane>(LIST_DUE_LANES, [since, until]);
      laneFloors.found(lanes, until - COMMIT_MS_MAX);
      return lanes;
    },
  } satisfies Partial<Store>;
}
