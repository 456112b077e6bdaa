import type { AttemptPage, AttemptQuery, ListedAttempt, Store } from "../store.ts";
import { named } from "./machine/named.ts";
import { firstSeqOf } from "./machine/seq.ts";
import type { Sql } from "./machine/sql.ts";

// The most attempts of a page, of all accounts.
const EXAMINED_MAX = 5000;

// A node numbers its rows before it commits them, which takes it 5 s at most for each statement that may wait and for the
// COMMIT. By then every other one has committed what it numbered before, or never does.
const SETTLED_MS = 10_000;

/** The attempts of all accounts that follow a place: `outbox` holds those that have not ended. */
const FOLLOWING = ["attempts", "outbox"]
  .map(
    (table) => `
    (SELECT seq, task_seq, account_seq, kind, number, due_at, started_at FROM ${table}
      WHERE seq > @after AND seq < @before ORDER BY seq LIMIT ${EXAMINED_MAX})`,
  )
  .join(" UNION ALL ");

const COLUMNS = `
  e.seq, t.id AS "taskId", t.type, t.tag, e.kind, e.number, e.due_at AS "dueAt", e.started_at AS "startedAt"`;

/** One statement, because an attempt that ends moves from one table to the other. */
const LIST_ATTEMPTS = named(`
  WITH examined AS MATERIALIZED (
    SELECT * FROM (${FOLLOWING}) AS f ORDER BY seq LIMIT ${EXAMINED_MAX}
  ), own AS (
    SELECT ${COLUMNS}
    FROM examined AS e JOIN tasks AS t ON t.seq = e.task_seq
    WHERE e.account_seq = @accountId ORDER BY e.seq LIMIT @limit
  )
  SELECT x.examined, x.last, own.*
  FROM (SELECT count(*)::int AS examined, max(seq) AS last FROM examined) AS x LEFT JOIN own ON true
  ORDER BY own.seq`);

const LIST_SCHEDULED = named(`
  SELECT ${COLUMNS}
  FROM (
    SELECT * FROM outbox WHERE account_seq = @accountId AND started_at IS NULL AND seq < @before
    LIMIT ${EXAMINED_MAX}
  ) AS e JOIN tasks AS t ON t.seq = e.task_seq
  ORDER BY e.due_at, e.seq
  LIMIT @limit`);

/** A row that was looked at, and an attempt of the account; all of it is null where there is none. */
type FollowingRow = {
  readonly [Name in keyof ListedAttempt]: ListedAttempt[Name] | null;
} & { readonly examined: number; readonly last: number | null };

export function attemptListReads(sql: Sql) {
  return {
    async listAttempts({ accountId, after, limit, now }: AttemptQuery): Promise<AttemptPage> {
      const before = firstSeqOf(now - SETTLED_MS);
      if (after === null) {
        const attempts = await LIST_SCHEDULED.all<ListedAttempt>(sql, { accountId, before, limit });
        return { attempts, next: before - 1, hasMore: false };
      }
      const rows = await LIST_ATTEMPTS.all<FollowingRow>(sql, { accountId, after, before, limit });
      const { examined = 0, last = null } = rows[0] ?? {};
      const attempts = rows.flatMap(({ examined: _examined, last: _last, ...row }) =>
        isAttempt(row) ? [row] : [],
      );
      if (attempts.length === limit) {
        return { attempts, next: attempts.at(-1)?.seq ?? after, hasMore: true };
      }
      const hasMore = examined === EXAMINED_MAX;
      const next = hasMore ? (last ?? after) : Math.max(after, before - 1);
      return { attempts, next, hasMore };
    },
  } satisfies Partial<Store>;
}

function isAttempt(row: Omit<FollowingRow, "examined" | "last">): row is ListedAttempt {
  return row.seq !== null;
}
