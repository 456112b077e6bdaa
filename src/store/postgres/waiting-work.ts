import type { Lane, Store } from "../store.ts";
import type { ReadSql } from "./machine/sql.ts";

/** Work that other nodes left to this one, looked for once a second: with hints or without. */

// A seek for each type.
const FIND_WAITING_TYPES = `
  SELECT type FROM unnest($1::text[]) AS a (type)
  WHERE EXISTS (SELECT 1 FROM queue AS q WHERE q.state = 'queued' AND q.type = a.type)`;

// Reads what became due in the interval: with a scan each second, about what one second brings.
const LIST_DUE_LANES = `
  SELECT account_seq AS "accountId", host, min(due_at) FILTER (WHERE retry = 0) AS "freshDueAt",
    min(due_at) FILTER (WHERE retry > 0) AS "retryDueAt"
  FROM outbox AS o
  WHERE started_at IS NULL AND due_at > $1 AND due_at <= $2
    AND NOT EXISTS (SELECT 1 FROM accounts AS a WHERE a.seq = o.account_seq AND a.disabled_at IS NOT NULL)
  GROUP BY account_seq, host`;

export function waitingWorkReads(sql: ReadSql) {
  return {
    async findWaitingTypes(types) {
      const rows = await sql.all<{ type: string }>(FIND_WAITING_TYPES, [types]);
      return rows.map(({ type }) => type);
    },

    listDueLanes: ({ since, until }) => sql.all<Lane>(LIST_DUE_LANES, [since, until]),
  } satisfies Partial<Store>;
}
