import { MINUTE_MS } from "../../domain/clock/duration.ts";
import { OLDEST_EXAMINED_MAX, earlier, waitedMs } from "../../domain/stats/time-series.ts";
import type { Store } from "../store.ts";
import { isHeld } from "./held-accounts.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { each, type SetSteps } from "./steps.ts";
import { IN_QUEUE_LISTED } from "./task-columns.ts";
import { ALL_ACCOUNTS } from "./traffic-tally.ts";

const QUEUED_AT = `greatest(created_at, coalesce(start_at, 0))`;

/**
 * In a statement: since when the longest-waiting task of an account has waited that may run, as `oldestSince` finds it.
 * Whatever was made after the first one was queued cannot have been queued earlier.
 */
function oldestOf(accountSeq: string): string {
  const ofAccount = `FROM queue WHERE account_seq = ${accountSeq} AND state = 'queued' AND ${IN_QUEUE_LISTED}`;
  return `(
    SELECT min(${QUEUED_AT}) FROM (
      SELECT created_at, start_at ${ofAccount}
        AND created_at <= (SELECT ${QUEUED_AT} ${ofAccount} ORDER BY created_at LIMIT 1)
      ORDER BY created_at LIMIT ${OLDEST_EXAMINED_MAX}
    ) AS first
  )`;
}

// Some rows for each account that ever posted. Tasks that are to start later are counted apart. With very many
// accounts, those with the most waiting tasks are sampled.
const WAITING_MOST = `
  SELECT w.account_seq AS "accountSeq", w.queued, ${isHeld("w.account_seq")} AS "isHeld",
    ${oldestOf("w.account_seq")} AS since
  FROM (
    SELECT account_seq, sum(count) AS queued FROM task_counts WHERE word = 'queued'
    GROUP BY account_seq HAVING sum(count) > 0
    ORDER BY queued DESC
    LIMIT 1000
  ) AS w`;

const SUM_WAITING = `SELECT coalesce(sum(count), 0) AS queued FROM task_counts WHERE word = 'queued'`;

const OLDEST_OF_ACCOUNT = `SELECT ${oldestOf("$1")} AS since`;

const RAISE_QUEUED = `
  INSERT INTO traffic AS t (account_seq, step_ms, at, stripe, queued, oldest_ms)
  SELECT account_seq, ${MINUTE_MS}, $1, $2, queued, oldest_ms
  FROM unnest($3::bigint[], $4::bigint[], $5::bigint[]) AS a (account_seq, queued, oldest_ms)
  ON CONFLICT (account_seq, step_ms, at, stripe) DO UPDATE
  SET queued = greatest(t.queued, excluded.queued), oldest_ms = greatest(t.oldest_ms, excluded.oldest_ms)`;

interface WaitingRow {
  readonly accountSeq: number;
  readonly queued: number;
  readonly isHeld: boolean;
  readonly since: number | null;
}

export function queueSampleWrites(sql: BatchSql) {
  return {
    sampleQueues: each(async ({ now }) => {
      const [accounts, sum] = await Promise.all([
        sql.all<WaitingRow>(WAITING_MOST),
        sql.get<{ queued: number }>(SUM_WAITING),
      ]);
      const queued = sum?.queued ?? 0;
      // Also of an empty queue: this row shows that a daemon ran.
      const all = { accountSeq: ALL_ACCOUNTS, queued, since: oldestOfAll(accounts) };
      const rows = [...accounts, all];
      sql.send(RAISE_QUEUED, [
        now - (now % MINUTE_MS),
        sql.stripe,
        rows.map((row) => row.accountSeq),
        rows.map((row) => row.queued),
        rows.map(({ since }) => waitedMs(since, now)),
      ]);
    }),
  } satisfies SetSteps;
}

export function waitingReads(sql: Sql) {
  return {
    async findOldestWaiting(scope) {
      if (scope === null) return oldestOfAll(await sql.all<WaitingRow>(WAITING_MOST));
      const row = await sql.get<Pick<WaitingRow, "since">>(OLDEST_OF_ACCOUNT, [scope]);
      return row?.since ?? null;
    },
  } satisfies Partial<Store>;
}

// Only the operator makes a held task wait.
function oldestOfAll(accounts: readonly WaitingRow[]): number | null {
  const enabled = accounts.filter((account) => !account.isHeld);
  return enabled.map(({ since }) => since).reduce(earlier, null);
}
