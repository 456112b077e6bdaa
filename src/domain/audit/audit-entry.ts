import { DAY_MS } from "../clock/duration.ts";
import { oneOf } from "../rule.ts";

export const AUDIT_ACTIONS = [
  "access.approved",
  "access.denied",
  "account.created",
  "account.disabled",
  "account.enabled",
  "account.erased",
  "account.exported",
  "account.limited",
  "delivery.paused",
  "delivery.redelivered",
  "delivery.resumed",
  "key.created",
  "key.revoked",
  "order.placed",
  "secret.finished",
  "secret.rotated",
  "secret.shown",
  "session.link_made",
  "session.opened",
  "session.refused",
  "task.erased",
  "worker.created",
  "worker.revoked",
] as const;

export type AuditAction = (typeof AUDIT_ACTIONS)[number];

export const AUDIT_ACTION = oneOf(AUDIT_ACTIONS);

/** The operator at the dashboard, an account by a key or a session, a user at the command line, or an unknown actor. */
export const ACTOR_KINDS = ["operator", "account", "user", "daemon", "nobody"] as const;

export interface Actor {
  readonly kind: (typeof ACTOR_KINDS)[number];
  /** The account's login with its key or session, or the name of the user; null for an unknown actor. */
  readonly name: string | null;
  /** The client's address; null for what came by no connection. */
  readonly address: string | null;
}

/** An important action: its actor, its subject and its time. It holds no secret. */
export interface AuditEntry {
  readonly at: number;
  readonly actor: Actor;
  readonly action: AuditAction;
  /** The login, key, task, order or worker; null where the action says it all. */
  readonly subject: string | null;
  readonly details: Readonly<Record<string, string | number | boolean | null>> | null;
}

export const AUDIT_KEPT_MS = 400 * DAY_MS;

/** The most entries that are kept: the oldest go first. */
export const AUDIT_MAX = 1_000_000;

/** An account, by what entries name it with. */
export interface AuditedAccount {
  readonly login: string;
  /** The ids of its keys and of its other items. */
  readonly ids: ReadonlySet<string>;
}

/** True for what an account did itself, and what was done to it or to what is its own. */
export function concernsAccount(
  { actor, action, subject, details }: AuditEntry,
  { login, ids }: AuditedAccount,
): boolean {
  if (actor.kind === "account" && actor.name?.split(" ", 1)[0] === login) return true;
  // Also of what is gone: a task that was erased, an old order.
  if (details?.["account"] === login) return true;
  // A worker may have the login as its name.
  if (subject === null || action.startsWith("worker.")) return false;
  return subject === login || ids.has(subject);
}

type Listed = AuditEntry & { readonly seq: number };

/** A page of a list, newest first. */
export interface AuditPage<Entry> {
  readonly entries: readonly Entry[];
  /** The entry after which the list goes on; null at its end. */
  readonly next: Entry | null;
}

export interface AuditPageOrder {
  /** Only entries that concern it; null for all. */
  readonly account: AuditedAccount | null;
  readonly limit: number;
  /** The `seq` of the last entry before the page. */
  readonly before: number | null;
  /** How many entries may be looked at: after them the page ends, however few it has. */
  readonly examinedMax: number;
}

const ROWS = 500;

/** Reads a page in parts. No index finds the entries of an account, which are named in several ways. */
export async function readAuditPage<Entry extends Listed>(
  read: (part: {
    readonly before: number | null;
    readonly limit: number;
  }) => Promise<readonly Entry[]>,
  { account, limit, before, examinedMax }: AuditPageOrder,
): Promise<AuditPage<Entry>> {
  // One more than the page shows that others exist.
  const rows = account === null ? limit + 1 : ROWS;
  const entries: Entry[] = [];
  let last: Entry | null = null;
  for (let examined = 0; examined < examinedMax; examined += rows) {
    const part: readonly Entry[] = await read({ before: last?.seq ?? before, limit: rows });
    for (const entry of part) {
      const isWanted = account === null || concernsAccount(entry, account);
      if (isWanted && entries.length === limit) return { entries, next: last };
      if (isWanted) entries.push(entry);
      last = entry;
    }
    if (part.length < rows) return { entries, next: null };
  }
  return { entries, next: last };
}
