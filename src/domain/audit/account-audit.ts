import type { AuditEntry } from "./audit-entry.ts";

/** An account, by what entries name it with. */
export interface AuditedAccount {
  readonly login: string;
  /** The ids of its keys, and of whatever else is its own. */
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

/** An entry with its place in the list. */
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
  /** How many entries at most. */
  readonly limit: number;
  /** The `seq` of the last entry before the page. */
  readonly before: number | null;
  /** How many entries may be looked at: after them the page ends, however few it has. */
  readonly examinedMax: number;
}

const ROWS = 500;

/**
 * Reads a page by parts that an index finds. No index finds the entries of an account: they are named in several ways,
 * and those of an account are looked for among all.
 */
export async function readAuditPage<Entry extends Listed>(
  read: (part: {
    readonly before: number | null;
    readonly limit: number;
  }) => Promise<readonly Entry[]>,
  { account, limit, before, examinedMax }: AuditPageOrder,
): Promise<AuditPage<Entry>> {
  // One too many tells that there are others.
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
