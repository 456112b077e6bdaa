import type { IdGenerator } from "../domain/id.ts";
import type { AuditEntry, Store } from "../store/store.ts";

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

/** The context of a use case that makes keys. */
export interface KeyContext<Methods extends keyof Store> extends AdminContext<Methods> {
  readonly ids: IdGenerator;
}
