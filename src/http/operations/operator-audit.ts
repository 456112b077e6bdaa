import { entryDocument, readAudit } from "../../admin/audit.ts";
import type { ListedAuditEntry } from "../../store/store.ts";
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
      const order = { login, action, since, before, limit, examinedMax: EXAMINED_MAX };
      const { entries, next } = await readAudit(order, store);
      const cursorOf = ({ at, seq }: ListedAuditEntry): string =>
        cursors.seal({ timeMs: at, seq }, VIEW);
      const next_cursor = next && cursorOf(next);
      return { fields: { entries: entries.map(entryDocument), next_cursor } };
    },
  });
}
