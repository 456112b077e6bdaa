import { AUDIT_MAX } from "../../domain/audit/audit-entry.ts";
import {
  AUDITED_WRITES,
  entryOf,
  toAuditEntry,
  toAuditRow,
  type AuditRow,
} from "../common/audited.ts";
import type { AuditEntry, AuditQuery } from "../store.ts";
import { type Connection, prepareEach } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

const INSERT_ENTRY = `
  INSERT INTO audit (at, actor_kind, actor_name, address, action, subject, details_text)
  VALUES (@at, @actorKind, @actorName, @address, @action, @subject, @detailsText)`;

const listEntries = (filter: string): string => `
  SELECT seq, at, actor_kind AS actorKind, actor_name AS actorName, address, action, subject,
    details_text AS detailsText
  FROM audit
  WHERE seq < @before ${filter}
  ORDER BY seq DESC LIMIT @limit`;

const OF_ACTION = `AND action = @action`;
// The clock may have been set: the first entry is looked for among all since that time. Without it a list that ends
// before its limit would go through the whole table.
const SINCE = `
  AND at >= @since AND seq >= (SELECT min(seq) FROM audit INDEXED BY audit_by_age WHERE at >= @since)`;

/** A list by what is asked for: each goes by an index. */
export const LIST_ENTRIES = {
  all: listEntries(""),
  ofAction: listEntries(OF_ACTION),
  since: listEntries(SINCE),
  ofActionSince: listEntries(OF_ACTION + SINCE),
};

const NEWEST = `SELECT max(seq) FROM audit`;
// One that is not old enough keeps back those after it.
const OLDEST = `SELECT seq, at FROM audit ORDER BY seq LIMIT @max`;
const ERASE = `DELETE FROM audit WHERE seq <= ?`;

/** Makes the writes record who did them, in the same transaction. */
export function auditing<Writes extends Readonly<Record<string, unknown>>>(
  connection: Connection,
  writes: Writes,
): Writes {
  const note = noter(connection);
  const all: Record<string, unknown> = { ...writes };
  for (const name of AUDITED_WRITES) {
    // Every write of a file is a function of one argument.
    const write = all[name] as (args: unknown) => unknown;
    all[name] = (args: unknown): unknown => {
      const value = write(args);
      const entry = entryOf(name, { args, value });
      if (entry !== null) note(entry);
      return value;
    };
  }
  // Each keeps its name, its argument and its answer.
  return all as Writes;
}

function noter(connection: Connection): (entry: AuditEntry) => void {
  const insert = connection.prepare(INSERT_ENTRY);
  return (entry) => void insert.run(toAuditRow(entry));
}

export function auditWrites(connection: Connection) {
  return { noteAudit: noter(connection) } satisfies Steps;
}

/** Erases entries from before a time, and those beyond {@link AUDIT_MAX}; up to `max`. Answers how many. */
export function auditEraser(
  connection: Connection,
): (due: { readonly before: number; readonly max: number }) => number {
  const newest = connection.prepare<[], number | null>(NEWEST).pluck();
  const oldest = connection.prepare<[object], { seq: number; at: number }>(OLDEST);
  const erase = connection.prepare<[number]>(ERASE);

  return ({ before, max }) => {
    const beyond = (newest.get() ?? 0) - AUDIT_MAX;
    const rows = oldest.all({ max });
    const firstKept = rows.findIndex(({ seq, at }) => at >= before && seq > beyond);
    const last = (firstKept === -1 ? rows : rows.slice(0, firstKept)).at(-1);
    return last === undefined ? 0 : erase.run(last.seq).changes;
  };
}

export function auditReads(connection: Connection) {
  const list = prepareEach<AuditRow & { seq: number }, ListName>(connection, LIST_ENTRIES);

  return {
    listAudit(query) {
      const before = query.before ?? Number.MAX_SAFE_INTEGER;
      return list(listName(query))
        .all({ ...query, before })
        .map(toAuditEntry);
    },
  } satisfies Steps;
}

type ListName = keyof typeof LIST_ENTRIES;

function listName({ action, since }: AuditQuery): ListName {
  if (action === null) return since === null ? "all" : "since";
  return since === null ? "ofAction" : "ofActionSince";
}
