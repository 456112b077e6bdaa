import { OPEN_DELIVERY_MS } from "../../domain/clock/service-clock.ts";
import type { CountedWord, HostWord } from "../../domain/stats/work-counts.ts";
import { type StoredState, decideErasure } from "../../domain/task/task.ts";
import { ATTEMPT_OVERHEAD_BYTES, TASK_OVERHEAD_BYTES } from "../common/large-task.ts";
import type { ExpiredRow } from "../common/list.ts";
import { idOf, type WriteRules } from "../common/write-rule.ts";
import { eachDialect, type Flag, onlyPostgres, onlySqlite } from "./statement.ts";
import { ON_POSTGRES, ON_SQLITE, type TaskDialect } from "./task-columns.ts";
import {
  all,
  get,
  send,
  type Batch,
  type StoreUseCases,
  type UseCase,
  within,
} from "./use-case.ts";

/** The size of an ended attempt `AS a`: an excerpt alone has up to 4 KiB. */
export const ATTEMPT_BYTES = `
  (${ATTEMPT_OVERHEAD_BYTES} + coalesce(octet_length(a.error), 0) + coalesce(octet_length(a.response_excerpt), 0)
  + coalesce(octet_length(a.refusal_text), 0) + coalesce(octet_length(a.retry_after), 0))`;

/** The size of the ended attempts of `tasks AS t`. */
export const ATTEMPTS_BYTES = `
  (SELECT coalesce(sum(${ATTEMPT_BYTES}), 0) FROM attempts AS a WHERE a.task_seq = t.seq AND a.ended_at IS NOT NULL)`;

/** The size of a task `AS t` as posted, on PostgreSQL. */
export const POST_BYTES = `
  (${TASK_OVERHEAD_BYTES} + octet_length(t.data_text) + coalesce(octet_length(t.input_text), 0))`;

/** The bytes that the end `AS e` of a task has added to its size, on PostgreSQL. */
export const END_BYTES = `
  (coalesce(octet_length(e.result_text), 0) + coalesce(octet_length(e.error_text), 0))`;

// A statement does not see what was written after it began. So each row of which something else is made is locked by a
// statement of its own before: a batch that ends such a task, sends its webhook or sends it again has committed by
// then, or finds nothing any more.
const lockRows = (table: string, order: string) =>
  onlyPostgres(
    `SELECT 1 FROM ${table} WHERE task_seq = ANY(@seqs::bigint[]) ORDER BY ${order} FOR UPDATE`,
  );

const LOCK_DELIVERIES = lockRows("deliveries", "task_seq, kind");

/** In the order in which the sweep locks. */
const LOCK_TASKS = [
  lockRows("ends", "task_seq"),
  lockRows("queue", "task_seq"),
  lockRows("outbox", "seq"),
  LOCK_DELIVERIES,
];

/** Sums up what erased tasks counted; on PostgreSQL it erases them too, with everything that belongs to them. */
export const SUM_ERASED = eachDialect({
  sqlite: `
    WITH t AS MATERIALIZED (
      SELECT t.seq, t.account_seq, t.state, t.ready,
        ${TASK_OVERHEAD_BYTES} + ${ON_SQLITE.textBytes} + ${ATTEMPTS_BYTES} AS bytes
      FROM json_each(@seqs) AS erased CROSS JOIN tasks AS t ON t.seq = erased.value ${ON_SQLITE.joins}
    ), erased (account_seq, host, word, count) AS (
      SELECT account_seq, NULL, 'bytes', bytes FROM t
      UNION ALL SELECT account_seq, NULL, state, 1 FROM t
      UNION ALL SELECT account_seq, NULL, 'ready', 1 FROM t WHERE ready = 1
      UNION ALL SELECT t.account_seq, a.host, 'retrying', 1
        FROM t CROSS JOIN attempts AS a INDEXED BY attempts_by_delivery ON a.task_seq = t.seq
        WHERE a.ended_at IS NULL AND a.retry > 0
      UNION ALL SELECT t.account_seq, d.host, d.ended, 1
        FROM t CROSS JOIN deliveries AS d INDEXED BY deliveries_failed ON d.task_seq = t.seq
        WHERE d.ended IN ('given_up', 'refused')
    )
    SELECT account_seq AS "accountId", host, word, sum(count) AS count FROM erased
    GROUP BY account_seq, host, word`,
  postgres: `
    WITH t AS (
      DELETE FROM tasks AS t WHERE seq = ANY(@seqs::bigint[]) RETURNING seq, account_seq, ${POST_BYTES} AS bytes
    ), q AS (
      DELETE FROM queue WHERE task_seq = ANY(@seqs::bigint[]) RETURNING account_seq, state
    ), e AS (
      DELETE FROM ends AS e WHERE task_seq = ANY(@seqs::bigint[]) RETURNING account_seq, state, ${END_BYTES} AS bytes
    ), r AS (
      DELETE FROM ready WHERE task_seq = ANY(@seqs::bigint[]) RETURNING account_seq
    ), d AS (
      DELETE FROM deliveries WHERE task_seq = ANY(@seqs::bigint[]) RETURNING task_seq, host, ended
    ), o AS (
      DELETE FROM outbox WHERE task_seq = ANY(@seqs::bigint[]) RETURNING account_seq, host, retry
    ), a AS (
      DELETE FROM attempts AS a WHERE task_seq = ANY(@seqs::bigint[]) RETURNING account_seq, ${ATTEMPT_BYTES} AS bytes
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
    SELECT account_seq AS "accountId", host, word, sum(count) AS count FROM erased
    GROUP BY account_seq, host, word`,
});

/** Inputs, results, leases, deliveries and attempts go with them, by ON DELETE CASCADE. */
export const ERASE_TASKS = onlySqlite(`DELETE FROM tasks WHERE seq = ANY(@seqs)`);

/** When the newest task is erased, its seq goes to the next task, which is younger than every mark. */
export const LOWER_MARKS = onlySqlite(`
  UPDATE queue_checkpoints SET task_seq = (SELECT coalesce(max(seq), 0) FROM tasks)
  WHERE task_seq > (SELECT coalesce(max(seq), 0) FROM tasks)`);

const FIND_SEQS = onlyPostgres(`SELECT seq FROM tasks WHERE id = ANY(@ids::uuid[])`);

const findToErase = (of: TaskDialect, open: string): string => `
  SELECT t.seq, ${of.state} AS state, EXISTS (SELECT 1 FROM ${open}) AS "isOpen" FROM tasks AS t ${of.joins}
  WHERE t.id = @id::uuid`;

export const FIND_TO_ERASE = eachDialect({
  sqlite: findToErase(
    { ...ON_SQLITE, joins: "" },
    `attempts AS a WHERE a.task_seq = t.seq AND a.ended_at IS NULL`,
  ),
  postgres: findToErase(ON_POSTGRES, `outbox AS o WHERE o.task_seq = t.seq`),
});

/**
 * The next tasks whose retention is over, with their sizes: nothing after them is read, however many of them have to be
 * kept. PostgreSQL passes over the tasks that another node examines, and sizes the texts alone.
 */
export const DUE_TASKS = eachDialect({
  sqlite: `
    SELECT t.seq, t.id, ${ON_SQLITE.textBytes} + ${ATTEMPTS_BYTES} AS bytes
    FROM tasks AS t
    ${ON_SQLITE.joins}
    WHERE t.erase_at IS NOT NULL AND t.erase_at <= @now
    ORDER BY t.erase_at
    LIMIT @max`,
  postgres: `
    SELECT t.seq, t.id, ${ON_POSTGRES.textBytes} AS bytes
    FROM ends AS e JOIN tasks AS t ON t.seq = e.task_seq
    WHERE e.erase_at <= @now
    ORDER BY e.erase_at
    LIMIT @max
    FOR UPDATE OF e SKIP LOCKED`,
});

const keepUndelivered = (table: string, seq: string, open: string): string => `
  UPDATE ${table} AS k SET erase_at = @now::bigint + ${OPEN_DELIVERY_MS}
  WHERE k.${seq} = ANY(@seqs::bigint[]) AND EXISTS (SELECT 1 FROM ${open} AS o WHERE o.task_seq = k.${seq}`;

/** Those of them that have a webhook still to be sent. They are no longer due. */
export const KEEP_UNDELIVERED = eachDialect({
  sqlite: `${keepUndelivered("tasks", "seq", "attempts")} AND o.ended_at IS NULL) RETURNING seq`,
  postgres: `${keepUndelivered("ends", "task_seq", "outbox")}) RETURNING task_seq AS seq`,
});

/** The sum of what was erased: of a host, or of an account. */
type ErasedSum = { readonly accountId: number; readonly count: number } & (
  | { readonly host: string; readonly word: HostWord }
  | { readonly host: null; readonly word: CountedWord }
);

interface Seq {
  readonly seq: number;
}

interface FoundToErase extends Seq {
  readonly state: StoredState;
  readonly isOpen: Flag;
}

/** Locks tasks as they are: a batch that wants to change them waits, and finds them erased. */
function* lockTasks(seqs: readonly number[]): UseCase<void> {
  for (const lock of LOCK_TASKS) yield* send(lock, { seqs });
}

/** Locks the tasks that a batch may erase, before it erases the first one. Only PostgreSQL needs it. */
export function* lockToErase(ids: readonly string[]): UseCase<void> {
  const tasks = yield* all<Seq>(FIND_SEQS, { ids });
  yield* lockTasks(tasks.map(({ seq }) => seq));
}

/**
 * Erases tasks, for any caller. Inputs, results, leases, deliveries and attempts go with them, and so does what is
 * counted of them. The traffic stays, because it happened.
 */
export function* eraseTasks(
  { changes: { counts, hosts } }: Batch,
  seqs: readonly number[],
): UseCase<void> {
  if (seqs.length === 0) return;
  yield* lockTasks(seqs);
  for (const sum of yield* all<ErasedSum>(SUM_ERASED, { seqs })) {
    if (sum.host === null) counts.add(sum.accountId, sum.word, -sum.count);
    else hosts.add({ ...sum, count: -sum.count });
  }
  yield* send(ERASE_TASKS, { seqs });
  yield* send(LOWER_MARKS);
}

export function taskErasureWrites(batch: Batch) {
  return {
    *eraseTask({ id, hasWebhooks }) {
      const found = yield* get<FoundToErase>(FIND_TO_ERASE, { id });
      const isToBeSent = Boolean(found?.isOpen);
      const outcome = decideErasure(found?.state, { isToBeSent, hasWebhooks });
      if (found !== undefined && outcome === "erased") yield* eraseTasks(batch, [found.seq]);
      return outcome;
    },

    *eraseExpired({ now, max }) {
      const expired = yield* within<ExpiredRow>(DUE_TASKS, { now, max });
      if (expired.length === 0) return { looked: 0, erased: [] };
      const seqs = expired.map(({ seq }) => seq);
      // Afterwards a webhook that is not to be sent now is not sent again either.
      yield* send(LOCK_DELIVERIES, { seqs });
      const open = yield* all<Seq>(KEEP_UNDELIVERED, { now, seqs });
      const kept = new Set(open.map(({ seq }) => seq));
      const erased = expired.filter(({ seq }) => !kept.has(seq));
      yield* eraseTasks(
        batch,
        erased.map(({ seq }) => seq),
      );
      return { looked: expired.length, erased: erased.map(({ id }) => id) };
    },
  } satisfies StoreUseCases;
}

export const taskErasureRules = {
  eraseTask: {
    hasEffect: (outcome) => outcome === "erased",
    locks: (task) => [idOf(task)],
    news: ({ id }, outcome) => ({ ended: outcome === "erased" ? [id] : [] }),
  },
} satisfies WriteRules;
