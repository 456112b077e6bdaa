import type { AuditEntry as AuditEntryShown } from "../../api/audit.ts";
import { readAuditPage } from "../../domain/audit/account-audit.ts";
import { timeText } from "../../domain/clock/time.ts";
import type { AuditEntry, ListedAuditEntry } from "../../store/store.ts";
import { openCursor } from "../list-cursor.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";

// Some dozens of milliseconds of the reader, in parts that others come between.
const EXAMINED_MAX = 10_000;

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
        "workers, redeliveries, erasures, pauses. Nothing changes an entry, and none holds a secret. They are kept for 400 days, " +
        "and the last million of them.",
    },
    async handle({ query: { action, account: login, since, cursor, limit } }) {
      const before = openCursor(cursor, { cursors, ...VIEW })?.seq ?? null;
      const keys = login === null ? null : await store.listKeys(login);
      const ids = new Set((keys ?? []).map(({ keyId }) => keyId));
      const account = login === null ? null : { login, ids };
      const { entries, next } = await readAuditPage(
        (part) => store.listAudit({ since, action, ...part }),
        { account, before, limit, examinedMax: EXAMINED_MAX },
      );
      const cursorOf = ({ at, seq }: ListedAuditEntry): string =>
        cursors.seal({ timeMs: at, seq }, VIEW);
      const next_cursor = next && cursorOf(next);
      return { fields: { entries: entries.map(entryDocument), next_cursor } };
    },
  });
}

function entryDocument({ at, actor, action, subject, details }: AuditEntry): AuditEntryShown {
  return { at: timeText(at), actor, action, subject, details };
}
