import type { AuditEntry as AuditEntryShown } from "../api/audit.ts";
import { type AuditPage, readAuditPage } from "../domain/audit/audit-entry.ts";
import { timeText } from "../domain/clock/time.ts";
import type { IdGenerator } from "../domain/id.ts";
import type { AuditEntry, AuditQuery, ListedAuditEntry, Store } from "../store/store.ts";

/** The store, the time and the audit for a use case. */
export interface AdminContext<Methods extends keyof Store> {
  readonly store: Pick<Store, Methods>;
  readonly now: number;
  /** Makes the audit entry of a write, with the actor and the time. */
  readonly audit: (
    action: AuditEntry["action"],
    subject: string | null,
    details?: AuditEntry["details"],
  ) => AuditEntry;
}

export interface KeyContext<Methods extends keyof Store> extends AdminContext<Methods> {
  readonly ids: IdGenerator;
}

interface AuditOrder extends AuditQuery {
  /** Only entries that concern this account; null for all. */
  readonly login: string | null;
  /** The page ends after so many examined entries, even if it is not full. */
  readonly examinedMax: number;
}

/** Reads a page of the audit, newest first. */
export async function readAudit(
  { login, since, action, ...page }: AuditOrder,
  store: Pick<Store, "listAudit" | "listKeys">,
): Promise<AuditPage<ListedAuditEntry>> {
  const keys = (login === null ? null : await store.listKeys(login)) ?? [];
  const ids = new Set(keys.map(({ keyId }) => keyId));
  return readAuditPage((part) => store.listAudit({ since, action, ...part }), {
    ...page,
    account: login === null ? null : { login, ids },
  });
}

export function entryDocument({
  at,
  actor,
  action,
  subject,
  details,
}: AuditEntry): AuditEntryShown {
  return { at: timeText(at), actor, action, subject, details };
}
