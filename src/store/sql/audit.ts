import { AUDIT_MAX } from "../../domain/audit/audit-entry.ts";
import type { WriteRules } from "../common/write-rule.ts";
import type { AuditEntry, AuditQuery } from "../store.ts";
import { eachDialect, statement } from "./statement.ts";
import { all, run, send, type StoreUseCases, type UseCase } from "./use-case.ts";

const INSERT_ENTRY = statement(`
  INSERT INTO audit (at, actor_kind, actor_name, address, action, subject, details_text)
  VALUES (@at, @actorKind, @actorName, @address, @action, @subject, @detailsText)`);

const listEntries = (filter: string): string => `
  SELECT seq, at, actor_kind AS "actorKind", actor_name AS "actorName", address, action, subject,
    details_text AS "detailsText"
  FROM audit
  WHERE seq < @before ${filter}
  ORDER BY seq DESC LIMIT @limit`;

const OF_ACTION = `AND action = @action`;
const SINCE = `AND at >= @since`;
// The clock may have been set, so the first entry since that time is searched by time. Without this bound a list with
// few entries would read the whole table.
const FROM_FIRST = `AND seq >= (SELECT min(seq) FROM audit INDEXED BY audit_by_age WHERE at >= @since)`;

function listSince(filter: string) {
  return eachDialect({
    sqlite: listEntries(`${filter} ${SINCE} ${FROM_FIRST}`),
    postgres: listEntries(`${filter} ${SINCE}`),
  });
}

/** The statement of each filter: every one uses an index. */
export const LIST_ENTRIES = {
  all: statement(listEntries("")),
  ofAction: statement(listEntries(OF_ACTION)),
  since: listSince(""),
  ofActionSince: listSince(OF_ACTION),
};

/** Up to @max entries, oldest first, from before a time or beyond a count. The first younger entry ends the list. */
export const ERASE_OLDEST = statement(`
  WITH oldest AS MATERIALIZED (SELECT seq, at FROM audit ORDER BY seq LIMIT @max),
    first_kept AS (
      SELECT min(seq) AS seq FROM oldest
      WHERE at >= @before AND seq > (SELECT max(seq) FROM audit) - @entriesMax::bigint
    )
  DELETE FROM audit WHERE seq IN (
    SELECT o.seq FROM oldest AS o, first_kept AS k WHERE k.seq IS NULL OR o.seq < k.seq
  )`);

export const auditWrites = { noteAudit } satisfies StoreUseCases;

export function* noteAudit(entry: AuditEntry): UseCase<void> {
  const { at, actor, action, subject, details } = entry;
  const { kind: actorKind, name: actorName, address } = actor;
  const detailsText = details === null ? null : JSON.stringify(details);
  yield* send(INSERT_ENTRY, { at, actorKind, actorName, address, action, subject, detailsText });
}

/** Erases entries from before a time, and those beyond {@link AUDIT_MAX}; up to `max`. Returns how many. */
export function* eraseAudit(due: {
  readonly before: number;
  readonly max: number;
}): UseCase<number> {
  return yield* run(ERASE_OLDEST, { ...due, entriesMax: AUDIT_MAX });
}

interface AuditRow {
  readonly seq: number;
  readonly at: number;
  readonly actorKind: AuditEntry["actor"]["kind"];
  readonly actorName: string | null;
  readonly address: string | null;
  readonly action: AuditEntry["action"];
  readonly subject: string | null;
  readonly detailsText: string | null;
}

export const auditReads = {
  *listAudit(query) {
    const { since, action, limit } = query;
    const before = query.before ?? Number.MAX_SAFE_INTEGER;
    const list = LIST_ENTRIES[listName(query)];
    return (yield* all<AuditRow>(list, { before, since, action, limit })).map(toEntry);
  },
} satisfies StoreUseCases;

function listName({ action, since }: AuditQuery): keyof typeof LIST_ENTRIES {
  if (action === null) return since === null ? "all" : "since";
  return since === null ? "ofAction" : "ofActionSince";
}

function toEntry({ actorKind: kind, actorName: name, address, detailsText, ...row }: AuditRow) {
  // It was written from such an object.
  const details = detailsText === null ? null : (JSON.parse(detailsText) as AuditEntry["details"]);
  return { ...row, actor: { kind, name, address }, details };
}

export const auditRules = {
  noteAudit: {},
} satisfies WriteRules;
