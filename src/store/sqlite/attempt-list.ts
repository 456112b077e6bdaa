import type { AttemptPage, AttemptQuery, ListedAttempt } from "../store.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

// The most attempts of a page, of all accounts.
const EXAMINED_MAX = 5000;

const COLUMNS = `
  a.seq, t.id AS taskId, t.type, t.tag, a.kind, a.number, a.due_at AS dueAt, a.started_at AS startedAt`;

/** Walks through the attempts of all accounts, within bounds: an index by account would cost every attempt a write. */
export const LIST_ATTEMPTS = `
  SELECT ${COLUMNS}
  FROM attempts AS a CROSS JOIN tasks AS t ON t.seq = a.task_seq
  WHERE a.seq > @after AND a.seq <= @to AND a.account_seq = @accountId
  ORDER BY a.seq
  LIMIT @limit`;

export const LIST_SCHEDULED = `
  SELECT ${COLUMNS}
  FROM (
    SELECT * FROM attempts INDEXED BY attempts_due WHERE account_seq = @accountId AND started_at IS NULL
    LIMIT ${EXAMINED_MAX}
  ) AS a CROSS JOIN tasks AS t ON t.seq = a.task_seq
  ORDER BY a.due_at, a.seq
  LIMIT @limit`;

const NEWEST_SEQ = `SELECT max(seq) FROM attempts`;

export function attemptListReads(connection: Connection) {
  const list = connection.prepare<[object], ListedAttempt>(LIST_ATTEMPTS);
  const listScheduled = connection.prepare<[object], ListedAttempt>(LIST_SCHEDULED);
  const newestSeq = connection.prepare<[], number | null>(NEWEST_SEQ).pluck();

  return {
    // One snapshot: an attempt that is scheduled in between belongs to the next page, and to no other.
    listAttempts: connection.transaction((query: AttemptQuery): AttemptPage => {
      const { accountId, after, limit } = query;
      const newest = newestSeq.get() ?? 0;
      if (after === null) {
        return { attempts: listScheduled.all({ accountId, limit }), next: newest, hasMore: false };
      }
      const to = Math.min(after + EXAMINED_MAX, newest);
      const attempts = list.all({ accountId, after, to, limit });
      const next = attempts.length === limit ? (attempts.at(-1)?.seq ?? to) : to;
      return { attempts, next, hasMore: next < newest };
    }),
  } satisfies Steps;
}
