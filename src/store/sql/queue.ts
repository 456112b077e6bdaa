import { MINUTE_MS } from "../../domain/clock/duration.ts";
import { earlier, isMarkDue, waitedMs } from "../../domain/stats/time-series.ts";
import { STEP_WRITE, type WriteRules } from "../common/write-rule.ts";
import type { Scope } from "../store.ts";
import {
  eachDialect,
  type Flag,
  onlyPostgres,
  onlySqlite,
  statement,
  type Statement,
} from "./statement.ts";
import { IN_QUEUE_LISTED } from "./task-columns.ts";
import { all, get, send, type Batch, type StoreUseCases, type UseCase } from "./use-case.ts";
import { ALL_ACCOUNTS } from "./work-counts.ts";

// The most tasks that were queued after others that were made later, because they were to start later.
const OLDEST_EXAMINED_MAX = 100;

/** How a database keeps the queue. */
interface Dialect {
  readonly queue: string;
  readonly isListed: string;
  readonly greatest: string;
  /** The column of `task_counts` with the word. */
  readonly word: string;
  readonly disabled: string;
}

function inDialects(text: (of: Dialect) => string): Statement {
  return eachDialect({
    sqlite: text({
      queue: "tasks INDEXED BY tasks_by_state",
      isListed: "true",
      greatest: "max",
      word: "state",
      disabled: "accounts INDEXED BY accounts_disabled",
    }),
    postgres: text({
      queue: "queue",
      isListed: IN_QUEUE_LISTED,
      greatest: "greatest",
      word: "word",
      disabled: "accounts",
    }),
  });
}

/**
 * In a statement: when the longest-waiting task of an account that may run was queued; null if no task waits. A task
 * that was made after the first one was queued cannot have been queued earlier.
 */
function oldestOf({ queue, isListed, greatest }: Dialect, accountId: string): string {
  const queuedAt = `${greatest}(created_at, coalesce(start_at, 0))`;
  const ofAccount = `FROM ${queue} WHERE account_seq = ${accountId} AND state = 'queued' AND ${isListed}`;
  return `(
    SELECT min(${queuedAt}) FROM (
      SELECT created_at, start_at ${ofAccount}
        AND created_at <= (SELECT ${queuedAt} ${ofAccount} ORDER BY created_at LIMIT 1)
      ORDER BY created_at LIMIT ${OLDEST_EXAMINED_MAX}
    ) AS first
  )`;
}

// Some rows for each account that ever posted. Tasks that are to start later are counted apart. With very many
// accounts, those with the most waiting tasks are sampled.
export const WAITING_MOST = inDialects(
  (of) => `
  SELECT w.account_seq AS "accountId", w.queued, ${oldestOf(of, "w.account_seq")} AS since,
    EXISTS (SELECT 1 FROM ${of.disabled} WHERE disabled_at IS NOT NULL AND seq = w.account_seq) AS "isSuspended"
  FROM (
    SELECT account_seq, sum(count) AS queued FROM task_counts WHERE ${of.word} = 'queued'
    GROUP BY account_seq HAVING sum(count) > 0
    ORDER BY queued DESC
    LIMIT 1000
  ) AS w`,
);

export const SUM_WAITING = inDialects(
  ({ word }) =>
    `SELECT coalesce(sum(count), 0) AS queued FROM task_counts WHERE ${word} = 'queued'`,
);

export const OLDEST_OF_ACCOUNT = inDialects(
  (of) => `SELECT ${oldestOf(of, "@accountId")} AS since`,
);

const RAISE_QUEUED = {
  one: onlySqlite(`
    INSERT INTO traffic (account_seq, step_ms, at, queued, oldest_ms)
    VALUES (@accountId, ${MINUTE_MS}, @at, @queued, @oldestMs)
    ON CONFLICT (account_seq, step_ms, at) DO UPDATE
    SET queued = max(queued, excluded.queued), oldest_ms = max(oldest_ms, excluded.oldest_ms)`),
  set: onlyPostgres(`
    INSERT INTO traffic AS t (account_seq, step_ms, at, stripe, queued, oldest_ms)
    SELECT account_seq, ${MINUTE_MS}, @at, @stripe, queued, oldest_ms
    FROM unnest(@accountIds::bigint[], @queued::bigint[], @oldestMs::bigint[]) AS a (account_seq, queued, oldest_ms)
    ON CONFLICT (account_seq, step_ms, at, stripe) DO UPDATE
    SET queued = greatest(t.queued, excluded.queued), oldest_ms = greatest(t.oldest_ms, excluded.oldest_ms)`),
};

export const NEWEST_MARK = statement(
  `SELECT seq, served_ms AS "servedMs" FROM queue_checkpoints ORDER BY seq DESC LIMIT 1`,
);

export const SERVE_MARK = statement(
  `UPDATE queue_checkpoints SET served_ms = served_ms + @servedMs WHERE seq = @seq`,
);

/** On PostgreSQL numbers rise with time: a task that is posted from now on has a higher one. */
const INSERT_MARK = eachDialect({
  sqlite: `INSERT INTO queue_checkpoints (task_seq) SELECT coalesce(max(seq), 0) FROM tasks`,
  postgres: `INSERT INTO queue_checkpoints (task_seq) VALUES (@next)`,
});

/** There are about a hundred marks at most. */
const OLD_MARK = statement(`
  SELECT seq FROM (
    SELECT seq, sum(served_ms) OVER (ORDER BY seq DESC) AS sum_ms FROM queue_checkpoints
  ) AS marks
  WHERE sum_ms >= @queueMs
  ORDER BY seq DESC
  LIMIT 1`);

const FORGET_MARKS = statement(`DELETE FROM queue_checkpoints WHERE seq < @seq`);

interface WaitingRow {
  readonly accountId: number;
  readonly queued: number;
  readonly isSuspended: Flag;
  readonly since: number | null;
}

export function queueWrites(batch: Batch) {
  return {
    *sampleQueues({ now }) {
      const accounts = yield* all<WaitingRow>(WAITING_MOST);
      const queued = (yield* get<{ queued: number }>(SUM_WAITING))?.queued ?? 0;
      // Also of an empty queue: this row shows that a daemon ran.
      const total = { accountId: ALL_ACCOUNTS, queued, since: oldestOfAll(accounts) };
      const rows = [...accounts, total].map(({ accountId, queued: waiting, since }) => ({
        accountId,
        queued: waiting,
        oldestMs: waitedMs(since, now),
      }));
      const at = now - (now % MINUTE_MS);
      for (const row of rows) yield* send(RAISE_QUEUED.one, { ...row, at });
      yield* send(RAISE_QUEUED.set, {
        at,
        stripe: batch.stripe,
        accountIds: rows.map(({ accountId }) => accountId),
        queued: rows.map((row) => row.queued),
        oldestMs: rows.map(({ oldestMs }) => oldestMs),
      });
    },

    *markQueue({ servedMs, everyMs, queueMs }) {
      const mark = yield* get<{ seq: number; servedMs: number }>(NEWEST_MARK);
      if (mark !== undefined && servedMs > 0) {
        yield* send(SERVE_MARK, { seq: mark.seq, servedMs });
      }
      if (isMarkDue(mark, { servedMs, everyMs })) {
        yield* send(INSERT_MARK, { next: batch.nextSeq() });
      }
      const old = yield* get<{ seq: number }>(OLD_MARK, { queueMs });
      if (old === undefined) return null;
      yield* send(FORGET_MARKS, { seq: old.seq });
      return old.seq;
    },
  } satisfies StoreUseCases;
}

export const waitingReads = { findOldestWaiting } satisfies StoreUseCases;

function* findOldestWaiting(scope: Scope): UseCase<number | null> {
  if (scope === null) return oldestOfAll(yield* all<WaitingRow>(WAITING_MOST));
  const row = yield* get<Pick<WaitingRow, "since">>(OLDEST_OF_ACCOUNT, { accountId: scope });
  return row?.since ?? null;
}

// Only the operator makes a held task wait.
function oldestOfAll(accounts: readonly WaitingRow[]): number | null {
  const enabled = accounts.filter(({ isSuspended }) => !isSuspended);
  return enabled.map(({ since }) => since).reduce(earlier, null);
}

export const queueRules = {
  markQueue: {},
  sampleQueues: { weight: STEP_WRITE },
} satisfies WriteRules;
