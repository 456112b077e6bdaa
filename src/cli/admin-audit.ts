import { entryDocument, readAudit } from "../admin/context.ts";
import { LOGIN } from "../domain/account/account.ts";
import { AUDIT_ACTION, AUDIT_MAX } from "../domain/audit/audit-entry.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { INSTANT, instantSeenFrom } from "../domain/clock/time.ts";
import { defineAdminCommand, LISTED, PAGE_ARGS, pageEnd } from "./admin-command.ts";
import { flag } from "./arguments.ts";
import { listAnswer } from "./print.ts";

const NAME = "postbackd admin audit";
const TIME = { ...instantSeenFrom(systemClock.now()), hint: INSTANT.hint };

export const auditCommand = defineAdminCommand({
  description: "List the audit log, newest first",
  example: `${NAME} --since 7d --action key.created`,
  notes:
    "Keys, secrets that were shown or replaced, sign-ins, accounts, access, workers, redeliveries, erasures, pauses.\n" +
    "The log is append-only. Entries are kept for 400 days, up to 1 million entries.",
  args: {
    since: flag(TIME, "Since: RFC 3339, or how long ago (2h, 1d)"),
    // The list of all actions would make the help too wide. The error for a wrong one has it.
    action: flag({ ...AUDIT_ACTION, hint: "ACTION" }, "Only this action, e.g. key.created"),
    account: flag(LOGIN, "Only actions of this account, or on the account and its keys"),
    ...PAGE_ARGS,
  },
  async run({ account: login, limit, ...given }, { store }) {
    const order = { ...given, login, limit: limit ?? LISTED, examinedMax: AUDIT_MAX };
    const page = await readAudit(order, store);
    const entries = page.entries.map(entryDocument);
    const { more: end, nextCursor } = pageEnd(page.next?.seq ?? null);
    const rows = entries.map(({ at, actor, action, subject, details }) => ({
      at,
      actor: actor.name === null ? actor.kind : `${actor.kind} ${actor.name}`,
      address: actor.address,
      action,
      subject,
      details: details && detailsText(details),
    }));
    return listAnswer({ entries, ...nextCursor }, rows, { none: "No entry.", end });
  },
});

function detailsText(details: object): string {
  return Object.entries(details)
    .flatMap(([name, value]) => (value === null ? [] : `${name}=${value}`))
    .join(" ");
}
