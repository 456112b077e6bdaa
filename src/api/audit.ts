import { LOGIN } from "../domain/account/account.ts";
import { ACTOR_KINDS, AUDIT_ACTION, AUDIT_ACTIONS } from "../domain/audit/audit-entry.ts";
import { NextCursor, Time, envelope } from "./envelope.ts";
import { CURSOR, optional, pointInTime, wholeNumber, type InputsFor } from "./input.ts";
import * as s from "./schema.ts";

/** Important actions with their actors and times. */

const Details: s.Schema<Readonly<Record<string, string | number | boolean | null>>> = {
  type: "object",
  additionalProperties: { type: ["string", "number", "boolean", "null"] },
};

const AuditEntry = s.named(
  "AuditEntry",
  s.object({
    at: Time,
    actor: s.object({
      kind: s.word(ACTOR_KINDS),
      name: s.nullable(
        s.text(
          "The user of the machine, the session, or the account's login with its key or session.",
        ),
      ),
      address: s.nullable(s.text("Of the client; null for what came by no connection.")),
    }),
    action: s.word(AUDIT_ACTIONS),
    subject: s.nullable(s.text("The login, key, task, order or worker that it was done to.")),
    details: s.nullable(Details, "More facts, by name."),
  }),
);
export type AuditEntry = s.Static<typeof AuditEntry>;

export const AUDIT_ANSWERS = {
  "GET /v1/operator/audit": envelope({ entries: s.list(AuditEntry), next_cursor: NextCursor }),
};

const LIST_LIMIT = { min: 1, max: 200, standard: 50 };

export const AUDIT_INPUTS = {
  "GET /v1/operator/audit": {
    query: {
      action: optional(AUDIT_ACTION, "Only this."),
      account: optional(
        LOGIN,
        "Only actions of this account, or on it and its keys. A page may then be short or empty although others exist.",
        { examples: ["alice"] },
      ),
      since: pointInTime("Only actions at this time or later."),
      cursor: CURSOR,
      limit: wholeNumber(LIST_LIMIT, "How many entries to list."),
    },
  },
} satisfies InputsFor<typeof AUDIT_ANSWERS>;
