import { AUDIT_MAX } from "../../domain/audit/audit-entry.ts";
import {
  AUDITED_WRITES,
  entryOf,
  toAuditEntry,
  toAuditRow,
  type AuditRow,
} from "../common/audited.ts";
import type { AuditEntry, Store } from "../store.ts";
import type { SetWrite } from "./machine/batch.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { each, type SetSteps } from "./steps.ts";

const INSERT_ENTRY = `
  INSERT INTO audit (at, actor_kind, actor_name, address, action, subject, details_text)
  VALUES ($1, $2, $3, $4, $5, $6, $7)`;

const LIST_ENTRIES = `
  SELECT seq, at, actor_kind AS "actorKind", actor_name AS "actorName", address, action, subject,
    details_text AS "detailsText"
  FROM audit
  WHERE seq < $1 AND at >= $2 AND ($3::text IS NULL OR action = $3)
  ORDER BY seq DESC LIMIT $4`;

/** Up to $3 entries from before $1, or beyond $2: one that is not old enough keeps back those after it. */
const ERASE_OLDEST = `
  WITH oldest AS (SELECT seq, at FROM audit ORDER BY seq LIMIT $3),
    first_kept AS (
      SELECT min(seq) AS seq FROM oldest WHERE at >= $1 AND seq > (SELECT max(seq) FROM audit) - $2::bigint
    )
  DELETE FROM audit WHERE seq IN (
    SELECT o.seq FROM oldest AS o, first_kept AS k WHERE k.seq IS NULL OR o.seq < k.seq
  )`;

/** Makes the writes record who did them, in the same transaction. */
export function auditing<Writes extends Readonly<Record<string, unknown>>>(
  sql: BatchSql,
  writes: Writes,
): Writes {
  const all: Record<string, unknown> = { ...writes };
  for (const name of AUDITED_WRITES) {
    // Every write of a server takes a list, and answers as long a one.
    const write = all[name] as SetWrite;
    all[name] = async (list: readonly never[]): Promise<readonly unknown[]> => {
      const values = await write(list);
      for (const [i, args] of list.entries()) {
        const entry = entryOf(name, { args, value: values[i] });
        if (entry !== null) note(sql, entry);
      }
      return values;
    };
  }
  // Each keeps its name, its argument and its answer.
  return all as Writes;
}

function note(sql: BatchSql, entry: AuditEntry): void {
  const { at, actorKind, actorName, address, action, subject, detailsText } = toAuditRow(entry);
  sql.send(INSERT_ENTRY, [at, actorKind, actorName, address, action, subject, detailsText]);
}

export function auditWrites(sql: BatchSql) {
  return {
    noteAudit: each(async (entry) => note(sql, entry)),
  } satisfies SetSteps;
}

/** Erases entries from before a time, and those beyond {@link AUDIT_MAX}; up to `max`. Answers how many. */
export function eraseAudit(
  sql: BatchSql,
  { before, max }: { readonly before: number; readonly max: number },
): Promise<number> {
  return sql.run(ERASE_OLDEST, [before, AUDIT_MAX, max]);
}

export function auditReads(sql: Sql) {
  return {
    async listAudit({ since, action, limit, before }) {
      const values = [before ?? Number.MAX_SAFE_INTEGER, since ?? 0, action, limit];
      const rows = await sql.all<AuditRow & { seq: number }>(LIST_ENTRIES, values);
      return rows.map(toAuditEntry);
    },
  } satisfies Partial<Store>;
}
