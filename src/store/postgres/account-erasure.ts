import { systemClock, wait } from "../../domain/clock/clock.ts";
import { ANSWER_OVERHEAD_BYTES } from "../common/large-task.ts";
import { takeWithin, type SizedRow } from "../common/list.ts";
import { StoreError } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import { ALL_ACCOUNTS } from "./counts.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { each, type SetSteps } from "./steps.ts";
import { IN_QUEUE_LISTED } from "./task-columns.ts";
import { ATTEMPT_BYTES, END_BYTES, eraseTasks, POST_BYTES } from "./task-erasure.ts";

// Whoever disables or enables an account locks this table before the account's row: so does this, which has to write to
// both in the end.
const LOCK_HOLD_CHANGES = `LOCK TABLE hold_changes IN ROW EXCLUSIVE MODE`;

/** Nobody enables the account until the batch has ended. */
const LOCK_ACCOUNT = `
  SELECT seq, disabled_at IS NOT NULL AS "isDisabled" FROM accounts WHERE login = $1 FOR NO KEY UPDATE`;

const ATTEMPTS_BYTES = `
  (SELECT coalesce(sum(${ATTEMPT_BYTES}), 0) FROM attempts AS a WHERE a.task_seq = t.seq)`;

const TASKS_MAX = 100;
const ROWS_MAX = 1000;

// The next rows of an account, in the order of an index and with a number that the plan knows: otherwise the server goes
// through all that the account has for each part. As a range, because a plan for all accounts takes `=` for
// as many rows as most accounts have, and would sort them.
const OF_ACCOUNT = `account_seq BETWEEN $1 AND $1`;

const QUEUED = `
  SELECT task_seq FROM queue WHERE ${OF_ACCOUNT} AND ${IN_QUEUE_LISTED}
  ORDER BY account_seq, state, created_at, task_seq LIMIT ${TASKS_MAX}`;

const ENDED = `
  SELECT task_seq, result_text, error_text FROM ends WHERE ${OF_ACCOUNT}
  ORDER BY account_seq, state, created_at, task_seq LIMIT ${TASKS_MAX}`;

const ACCOUNT_QUEUE = `
  SELECT t.seq, ${POST_BYTES} + ${ATTEMPTS_BYTES} AS bytes
  FROM (${QUEUED}) AS q JOIN tasks AS t ON t.seq = q.task_seq`;

const ACCOUNT_ENDS = `
  SELECT t.seq, ${POST_BYTES} + ${END_BYTES} + ${ATTEMPTS_BYTES} AS bytes
  FROM (${ENDED}) AS e JOIN tasks AS t ON t.seq = e.task_seq`;

const ACCOUNT_ANSWERS = `
  SELECT key, octet_length(answer_text) AS bytes FROM idempotency_keys WHERE ${OF_ACCOUNT}
  ORDER BY account_seq, key LIMIT ${ROWS_MAX}`;

const ERASE_ANSWERS = `
  DELETE FROM idempotency_keys WHERE account_seq = $1 AND key = ANY($2::text[])
  RETURNING octet_length(answer_text) AS bytes`;

/** The next rows by host: those of {@link ERASE_STATISTICS}. */
const HOURS = `
  SELECT at, host, stripe, attempts, succeeded, durations FROM host_traffic WHERE ${OF_ACCOUNT}
  ORDER BY account_seq, at, host, stripe LIMIT ${ROWS_MAX}`;
const FAILURES = `
  SELECT host, stripe, ended_at, task_seq FROM host_failures WHERE ${OF_ACCOUNT}
  ORDER BY account_seq, host, stripe LIMIT ${ROWS_MAX}`;

const SUBTRACT_HOURS = `
  UPDATE host_traffic AS t
  SET attempts = t.attempts - own.attempts, succeeded = t.succeeded - own.succeeded, durations = (
    SELECT coalesce(array_agg(coalesce(n, 0) - coalesce(m, 0) ORDER BY place), '{}')
    FROM unnest(t.durations, own.durations) WITH ORDINALITY AS d (n, m, place)
  )
  FROM (${HOURS}) AS own
  WHERE t.account_seq = ${ALL_ACCOUNTS} AND t.at = own.at AND t.host = own.host AND t.stripe = own.stripe`;

const ERASE_EMPTY_HOURS = `
  DELETE FROM host_traffic AS t USING (${HOURS}) AS own
  WHERE t.account_seq = ${ALL_ACCOUNTS} AND t.at = own.at AND t.host = own.host AND t.stripe = own.stripe
    AND t.attempts <= 0`;

const ERASE_SHARED_FAILURES = `
  DELETE FROM host_failures AS t USING (${FAILURES}) AS own
  WHERE t.account_seq = ${ALL_ACCOUNTS} AND t.host = own.host AND t.stripe = own.stripe
    AND t.ended_at = own.ended_at AND t.task_seq = own.task_seq`;

/**
 * The last statement of each list erases a part of a table. Those before it take the part out of the rows of all accounts
 * together: a name of a host must not outlive the only account that used it.
 */
const ERASE_STATISTICS = [
  [eraseSome("traffic", "account_seq, step_ms, at")],
  [SUBTRACT_HOURS, ERASE_EMPTY_HOURS, eraseSome("host_traffic", "account_seq, at, host, stripe")],
  [ERASE_SHARED_FAILURES, eraseSome("host_failures", "account_seq, host, stripe")],
] as const;

const ERASE_ORDERS = `DELETE FROM redelivery_orders WHERE filter_text::json ->> 'login' = $1`;

const LAST = [
  `DELETE FROM sessions WHERE key_seq IN (SELECT seq FROM keys WHERE account_seq = $1)`,
  `DELETE FROM keys WHERE account_seq = $1`,
  `DELETE FROM access_requests WHERE account_seq = $1`,
  `DELETE FROM task_counts WHERE account_seq = $1`,
  `DELETE FROM host_counts WHERE account_seq = $1`,
  `DELETE FROM accounts WHERE seq = $1`,
];

/** Erases rows in the order of the primary key, by their places: a place is valid within the statement. */
function eraseSome(table: string, order: string): string {
  return `
    DELETE FROM ${table} WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM ${table} WHERE ${OF_ACCOUNT} ORDER BY ${order} LIMIT ${ROWS_MAX}
    ))`;
}

// Every batch locks its stripe first, and with it the table until it has ended.
const LIST_BATCHES = `
  SELECT virtualtransaction AS id FROM pg_locks
  WHERE relation = 'stripes'::regclass AND mode = 'RowShareLock'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

// One that stands still is ended by the server after ten seconds.
const BATCH_MS_MAX = 15_000;
const LOOK_MS = 20;

export function accountErasureReads(sql: Sql) {
  const list = async (): Promise<readonly string[]> =>
    (await sql.all<{ id: string }>(LIST_BATCHES)).map(({ id }) => id);
  return {
    /**
     * Settles when the batches have ended that are under way now, at any node. A post of one of them may have found an
     * account enabled that is disabled by now, and holds no lock of it. A later post finds it disabled, and locks it: so
     * the erasure sees what it has written, or it sees that there is no account any more.
     */
    async batchesEnded(): Promise<void> {
      const until = systemClock.monotonic() + BATCH_MS_MAX;
      let left = await list();
      while (left.length > 0) {
        if (systemClock.monotonic() > until)
          throw new StoreError("busy", "a write of a daemon does not end");
        await wait(LOOK_MS, { clock: systemClock });
        const underWay = await list();
        left = left.filter((id) => underWay.includes(id));
      }
    },
  };
}

/** An account is erased part by part. */
export function accountErasureWrites(sql: BatchSql, changes: BatchChanges) {
  return {
    eraseAccountPart: each(async ({ login }) => {
      sql.send(LOCK_HOLD_CHANGES);
      const account = await sql.get<{ seq: number; isDisabled: boolean }>(LOCK_ACCOUNT, [login]);
      if (account === undefined) return { kind: "unknown" };
      if (!account.isDisabled) return { kind: "enabled" };
      const { seq: accountSeq } = account;
      const tasks = await eraseSomeTasks(sql, changes, accountSeq);
      if (tasks > 0) return { kind: "more", tasks };
      if ((await eraseSomeRows(sql, changes, accountSeq)) > 0) return { kind: "more", tasks: 0 };
      sql.send(ERASE_ORDERS, [login]);
      for (const erase of LAST) sql.send(erase, [accountSeq]);
      return { kind: "done" };
    }),
  } satisfies SetSteps;
}

async function eraseSomeTasks(
  sql: BatchSql,
  changes: BatchChanges,
  accountSeq: number,
): Promise<number> {
  for (const select of [ACCOUNT_QUEUE, ACCOUNT_ENDS]) {
    const rows = takeWithin(await sql.all<SizedRow>(select, [accountSeq]));
    const seqs = rows.map(({ seq }) => seq);
    if (seqs.length === 0) continue;
    await eraseTasks(sql, changes, seqs);
    // Another node may have erased some of them meanwhile: none of them is there any more.
    return seqs.length;
  }
  return 0;
}

async function eraseSomeRows(
  sql: BatchSql,
  { counts }: BatchChanges,
  accountSeq: number,
): Promise<number> {
  const answers = takeWithin(
    await sql.all<{ key: string; bytes: number }>(ACCOUNT_ANSWERS, [accountSeq]),
  );
  if (answers.length > 0) {
    const keys = answers.map(({ key }) => key);
    const erased = await sql.all<{ bytes: number }>(ERASE_ANSWERS, [accountSeq, keys]);
    for (const { bytes } of erased) {
      counts.add(accountSeq, "bytes", -(ANSWER_OVERHEAD_BYTES + bytes));
    }
    return answers.length;
  }
  for (const list of ERASE_STATISTICS) {
    const erased = await Promise.all(list.map((statement) => sql.run(statement, [accountSeq])));
    const last = erased.at(-1) ?? 0;
    if (last > 0) return last;
  }
  return 0;
}
