import { LOGIN } from "../domain/account/login.ts";
import { readAuditPage } from "../domain/audit/account-audit.ts";
import { AUDIT_ACTION, AUDIT_MAX } from "../domain/audit/audit-entry.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { INSTANT, instantSeenFrom, timeText } from "../domain/clock/time.ts";
import { integerBetween } from "../domain/rule.ts";
import type { AuditQuery, ListedAuditEntry, Store } from "../store/store.ts";
import { defineAdminCommand } from "./admin-command.ts";
import { flag } from "./arguments.ts";
import { tableLines, type Columns } from "./print.ts";

const NAME = "postbackd admin audit";
const LISTED_MAX = 1000;
const LISTED = 50;
const TIME = { ...instantSeenFrom(systemClock.now()), hint: INSTANT.hint };

export const auditCommand = defineAdminCommand({
  description: "List who did what of consequence, and when, the latest first",
  example: `${NAME} --since 7d --action key.created`,
  notes:
    "Keys, secrets that were shown or replaced, sign-ins, accounts, access, workers, redeliveries, erasures, pauses.\n" +
    "Entries cannot be changed. They are kept for 400 days, and the last million of them.",
  args: {
    since: flag(TIME, "Since: RFC 3339, or how long ago (2h, 1d)"),
    // All words would make the help too wide; a wrong one is answered with them.
    action: flag({ ...AUDIT_ACTION, hint: "ACTION" }, "Only this, such as key.created"),
    account: flag(LOGIN, "Only what this account did, or was done to it and its keys"),
    limit: flag(integerBetween(1, LISTED_MAX), `How many at most; ${LISTED} unless given`),
    before: flag(
      { ...integerBetween(1, Number.MAX_SAFE_INTEGER), hint: "CURSOR" },
      "Where to go on: what the list before names at its end",
    ),
  },
  async run({ since, action, account: login, limit, before }, { store }) {
    const account = login === null ? null : { login, ids: await keyIdsOf(login, store) };
    const order = { account, before, limit: limit ?? LISTED, examinedMax: AUDIT_MAX };
    const read = (part: Pick<AuditQuery, "before" | "limit">) =>
      store.listAudit({ since, action, ...part });
    const { entries, next: last } = await readAuditPage(read, order);
    const next = last?.seq ?? null;
    const more = next === null ? [] : ["", `There are more; --before ${next} goes on with them.`];
    return {
      document: {
        entries: entries.map(entryDocument),
        next_cursor: next === null ? null : String(next),
      },
      lines: entries.length === 0 ? ["No entry."] : [...tableLines(entries, COLUMNS), ...more],
    };
  },
});

async function keyIdsOf(
  login: string,
  store: Pick<Store, "listKeys">,
): Promise<ReadonlySet<string>> {
  const keys = await store.listKeys(login);
  return new Set((keys ?? []).map(({ keyId }) => keyId));
}

/** An entry as JSON shows it. */
export function entryDocument({ at, actor, action, subject, details }: ListedAuditEntry) {
  return { at: timeText(at), actor, action, subject, details };
}

const COLUMNS: Columns<ListedAuditEntry> = {
  WHEN: ({ at }) => timeText(at),
  WHO: ({ actor }) => (actor.name === null ? actor.kind : `${actor.kind} ${actor.name}`),
  FROM: ({ actor }) => actor.address,
  ACTION: ({ action }) => action,
  WHAT: ({ subject }) => subject,
  DETAILS: ({ details }) => details && detailsText(details),
};

function detailsText(details: NonNullable<ListedAuditEntry["details"]>): string {
  return Object.entries(details)
    .flatMap(([name, value]) => (value === null ? [] : `${name}=${value}`))
    .join(" ");
}
