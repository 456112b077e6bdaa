import type { CountedWord, HostWord } from "../../domain/stats/work-counts.ts";
import { STORED_STATES, type StoredState, decideErasure } from "../../domain/task/task.ts";
import { ATTEMPT_OVERHEAD_BYTES, TASK_OVERHEAD_BYTES } from "../common/large-task.ts";
import { ON_POSTGRES } from "../sql/task-columns.ts";
import type { BatchChanges } from "./batch-changes.ts";
import type { BatchSql } from "./machine/sql.ts";
import { each, type ArgsOf, type SetSteps } from "./steps.ts";
import { toUuid } from "./task-columns.ts";

/** The size of an ended attempt `AS a`: an excerpt alone has up to 4 KiB. */
export const ATTEMPT_BYTES = `
  (${ATTEMPT_OVERHEAD_BYTES} + coalesce(octet_length(a.error), 0) + coalesce(octet_length(a.response_excerpt), 0)
  + coalesce(octet_length(a.refusal_text), 0) + coalesce(octet_length(a.retry_after), 0))`;

/** The size of a task `AS t` as posted. */
export const POST_BYTES = `
  (${TASK_OVERHEAD_BYTES} + octet_length(t.data_text) + coalesce(octet_length(t.input_text), 0))`;

/** The bytes that the end `AS e` of a task has added to its size. */
export const END_BYTES = `
  (coalesce(octet_length(e.result_text), 0) + coalesce(octet_length(e.error_text), 0))`;

// A statement does not see what was written after it began. So each row of which something else is made is locked by a
// statement of its own before: whoever is ending such a task, sending its webhook or sending it again has committed by
// then, or finds nothing any more.
const LOCK_ENDS = `
  SELECT 1 FROM ends WHERE task_seq = ANY($1::bigint[]) ORDER BY task_seq FOR UPDATE`;

const LOCK_QUEUED = `
  SELECT 1 FROM queue WHERE task_seq = ANY($1::bigint[]) ORDER BY task_seq FOR UPDATE`;

const LOCK_ATTEMPTS = `
  SELECT 1 FROM outbox WHERE task_seq = ANY($1::bigint[]) ORDER BY seq FOR UPDATE`;

const LOCK_DELIVERIES = `
  SELECT 1 FROM deliveries WHERE task_seq = ANY($1::bigint[]) ORDER BY task_seq, kind FOR UPDATE`;

/** Erases tasks with everything that belongs to them; answers what is to be counted no longer. */
export const ERASE_TASKS = `
  WITH t AS (
    DELETE FROM tasks AS t WHERE seq = ANY($1::bigint[]) RETURNING seq, account_seq, ${POST_BYTES} AS bytes
  ), q AS (
    DELETE FROM queue WHERE task_seq = ANY($1::bigint[]) RETURNING account_seq, state
  ), e AS (
    DELETE FROM ends AS e WHERE task_seq = ANY($1::bigint[]) RETURNING account_seq, state, ${END_BYTES} AS bytes
  ), r AS (
    DELETE FROM ready WHERE task_seq = ANY($1::bigint[]) RETURNING account_seq
  ), d AS (
    DELETE FROM deliveries WHERE task_seq = ANY($1::bigint[]) RETURNING task_seq, host, ended
  ), o AS (
    DELETE FROM outbox WHERE task_seq = ANY($1::bigint[]) RETURNING account_seq, host, retry
  ), a AS (
    DELETE FROM attempts AS a WHERE task_seq = ANY($1::bigint[]) RETURNING account_seq, ${ATTEMPT_BYTES} AS bytes
  ), erased (account_seq, host, word, count) AS (
    SELECT account_seq, NULL, 'bytes', bytes FROM t
    UNION ALL SELECT account_seq, NULL, 'bytes', bytes FROM e
    UNION ALL SELECT account_seq, NULL, 'bytes', bytes FROM a
    UNION ALL SELECT account_seq, NULL, state::text, 1 FROM q
    UNION ALL SELECT account_seq, NULL, state::text, 1 FROM e
    UNION ALL SELECT account_seq, NULL, 'ready', 1 FROM r
    UNION ALL SELECT account_seq, host, 'retrying', 1 FROM o WHERE retry > 0
    UNION ALL SELECT account_seq, host, ended::text, 1 FROM d JOIN t ON t.seq = d.task_seq
      WHERE ended IN ('given_up', 'refused')
  )
  SELECT account_seq AS "accountSeq", host, word, sum(count) AS count FROM erased
  GROUP BY account_seq, host, word`;

const FIND_SEQS = `SELECT seq FROM tasks WHERE id = ANY($1::uuid[])`;

const FIND_TO_ERASE = `
  SELECT t.seq, ${ON_POSTGRES.state} AS state, EXISTS (SELECT 1 FROM outbox AS o WHERE o.task_seq = t.seq) AS "isOpen"
  FROM tasks AS t ${ON_POSTGRES.joins}
  WHERE t.id = $1`;

interface FoundToErase {
  readonly seq: number;
  readonly state: StoredState;
  readonly isOpen: boolean;
}

/** The sum of what was erased: of a host, or of an account. */
type ErasedSum = { readonly accountSeq: number; readonly count: number } & (
  | { readonly host: string; readonly word: HostWord }
  | { readonly host: null; readonly word: CountedWord }
);

/** Locks deliveries of tasks, and what may still become of them: an open one stays open, an ended one ended. */
export function lockDeliveries(sql: BatchSql, seqs: readonly number[]): void {
  sql.send(LOCK_DELIVERIES, [seqs]);
}

/** Locks tasks as they are: whoever wants to change them waits, and finds them erased. */
function lockTasks(sql: BatchSql, seqs: readonly number[]): void {
  // First, as the sweep does.
  sql.send(LOCK_ENDS, [seqs]);
  sql.send(LOCK_QUEUED, [seqs]);
  sql.send(LOCK_ATTEMPTS, [seqs]);
  lockDeliveries(sql, seqs);
}

/**
 * Erases tasks, for any caller. Inputs, results, leases, deliveries and attempts go with them, and so does what is
 * counted of them. Answers how many there were.
 */
export async function eraseTasks(
  sql: BatchSql,
  changes: BatchChanges,
  seqs: readonly number[],
): Promise<number> {
  if (seqs.length === 0) return 0;
  lockTasks(sql, seqs);
  let erased = 0;
  for (const sum of await sql.all<ErasedSum>(ERASE_TASKS, [seqs])) {
    const { accountSeq, count } = sum;
    if (sum.host !== null) changes.hosts.add({ ...sum, count: -count });
    else {
      changes.counts.add(accountSeq, sum.word, -count);
      if (isState(sum.word)) erased += count;
    }
  }
  return erased;
}

function isState(word: CountedWord): boolean {
  return STORED_STATES.some((state) => state === word);
}

export function taskErasureWrites(sql: BatchSql, changes: BatchChanges) {
  const eraseOne = async ({ id, hasWebhooks }: ArgsOf<"eraseTask">) => {
    const found = await sql.get<FoundToErase>(FIND_TO_ERASE, [toUuid(id)]);
    const isToBeSent = found?.isOpen === true;
    const outcome = decideErasure(found?.state, { isToBeSent, hasWebhooks });
    if (found !== undefined && outcome === "erased") await eraseTasks(sql, changes, [found.seq]);
    return outcome;
  };

  return {
    async eraseTask(orders) {
      const ids = orders.map(({ id }) => toUuid(id));
      const tasks = await sql.all<{ seq: number }>(FIND_SEQS, [ids]);
      // All of them before the first is erased, in the order in which others lock them.
      lockTasks(
        sql,
        tasks.map(({ seq }) => seq),
      );
      return await each(eraseOne)(orders);
    },
  } satisfies SetSteps;
}
