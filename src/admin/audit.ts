import type { AuditEntry as AuditEntryShown } from "../api/audit.ts";
import { readAuditPage, type AuditPage } from "../domain/audit/audit-entry.ts";
import { timeText } from "../domain/clock/time.ts";
import type { AuditEntry, AuditQuery, ListedAuditEntry, Store } from "../store/store.ts";

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
