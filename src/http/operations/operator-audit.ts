import type { AuditEntry as AuditEntryShown } from "../../api/audit.ts";
import { timeText } from "../../domain/clock/time.ts";
import type { AuditEntry } from "../../store/store.ts";
import { openCursor } from "../list-cursor.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";

const VIEW = { list: "audit", scope: null } as const;

export function auditList({ store, cursors }: OperationDeps): Operation {
  return defineOperation("GET /v1/operator/audit", {
    access: "operator",
    doc: {
      id: "listAudit",
      group: "Operator",
      summary: "List who did what",
      description:
        "What was done of consequence, newest first: keys, secrets that were shown or replaced, sign-ins, accounts, access, " +
        "workers, redeliveries, erasures, holds. Nothing changes an entry, and none holds a secret. They are kept for 400 days, " +
        "and the last million of them.",
    },
    async handle({ query: { action, since, cursor, limit } }) {
      const before = openCursor(cursor, { cursors, ...VIEW })?.seq ?? null;
      // One too many tells that there are others.
      const found = await store.listAudit({ since, action, before, limit: limit + 1 });
      const page = found.slice(0, limit);
      const last = found.length > limit ? page.at(-1) : undefined;
      const next =
        last === undefined ? null : cursors.seal({ timeMs: last.at, seq: last.seq }, VIEW);
      return { fields: { entries: page.map(entryDocument), next_cursor: next } };
    },
  });
}

function entryDocument({ at, actor, action, subject, details }: AuditEntry): AuditEntryShown {
  return { at: timeText(at), actor, action, subject, details };
}
