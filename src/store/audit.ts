import type { AuditAction, AuditEntry } from "../domain/audit/audit-entry.ts";

export type { Actor, AuditAction, AuditEntry } from "../domain/audit/audit-entry.ts";

/** Remembers who did what of consequence: nothing changes an entry, and the oldest are erased first. */
export interface AuditStore {
  /** Adds an entry about what is no write of the store. Writes take theirs with them: {@link Audited}. */
  noteAudit(entry: AuditEntry): Promise<void>;
  /** Lists entries, newest first. */
  listAudit(query: AuditQuery): Promise<readonly ListedAuditEntry[]>;
}

/** A write that records who did it, in its own transaction, if it takes effect. */
export interface Audited {
  readonly audit?: AuditEntry;
}

export interface AuditQuery {
  readonly since: number | null;
  readonly action: AuditAction | null;
  readonly limit: number;
  /** The `seq` of the last entry of the page before. */
  readonly before: number | null;
}

export interface ListedAuditEntry extends AuditEntry {
  readonly seq: number;
}
