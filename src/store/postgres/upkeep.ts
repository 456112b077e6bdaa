import { HOUR_MS, MINUTE_MS } from "../../domain/clock/duration.ts";
import { OPEN_DELIVERY_MS } from "../../domain/clock/service-clock.ts";
import { ANSWER_OVERHEAD_BYTES } from "../common/large-task.ts";
import { takeWithin, type ExpiredRow, type SizedRow } from "../common/list.ts";
import { eraseAudit } from "../sql/audit.ts";
import { ON_POSTGRES } from "../sql/task-columns.ts";
import type { Store } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import { SUM_BYTES } from "./counts.ts";
import type { BatchSql, Sql, SqlValue } from "./machine/sql.ts";
import { each, type ArgsOf, type SetSteps } from "./steps.ts";
import { eraseTasks, lockDeliveries } from "./task-erasure.ts";
import { runOn } from "./use-cases.ts";

const INSERT_SECRET = `INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`;

// Another node may have kept one a moment before: then the insert has waited for it, and this sees it.
const FIND_SECRET = `SELECT value FROM secrets WHERE name = $1`;

/**
 * The next tasks to look at, with the size of their texts: nothing after them is read, however many of them have to be
 * kept. What another node is looking at is passed over.
 */
export const DUE_TASKS = `
  SELECT t.seq, t.id, ${ON_POSTGRES.textBytes} AS bytes
  FROM ends AS e JOIN tasks AS t ON t.seq = e.task_seq
  WHERE e.erase_at <= $1
  ORDER BY e.erase_at
  LIMIT $2
  FOR UPDATE OF e SKIP LOCKED`;

/** Those of them that have a webhook still to be sent. They are no longer due. */
export const KEEP_UNDELIVERED = `
  UPDATE ends AS e SET erase_at = $1::bigint + ${OPEN_DELIVERY_MS}
  WHERE task_seq = ANY($2::bigint[]) AND EXISTS (SELECT 1 FROM outbox AS o WHERE o.task_seq = e.task_seq)
  RETURNING task_seq AS seq`;

/**
 * Deletes rows that a query selects by their key; what another node is deleting is passed over. The query runs once:
 * run again for each row, it would pass over what is deleted already, and find more than its limit.
 */
function eraseSome(table: string, key: string, selected: string): string {
  return `
  WITH old AS MATERIALIZED (SELECT ${key} FROM ${table} ${selected} FOR UPDATE SKIP LOCKED)
  DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM old)`;
}

// The oldest, $2 at most.
const OLD_ANSWERS = `WHERE erase_at < $1 ORDER BY erase_at LIMIT $2`;

/** The size of each answer that {@link ERASE_ANSWERS} would erase. */
export const SIZE_ANSWERS = `SELECT octet_length(answer_text) AS bytes FROM idempotency_keys ${OLD_ANSWERS}`;

export const ERASE_ANSWERS = `
  ${eraseSome("idempotency_keys", "account_seq, key", OLD_ANSWERS)}
  RETURNING account_seq AS "accountSeq", octet_length(answer_text) + ${ANSWER_OVERHEAD_BYTES} AS bytes`;

export const ERASE_SESSIONS = eraseSome(
  "sessions",
  "seq",
  `WHERE created_at < $1 ORDER BY created_at LIMIT $2`,
);

// The operator makes them one by one, so there are few.
export const ERASE_LINKS = eraseSome("sign_in_links", "hash", `WHERE expires_at < $1 LIMIT $2`);

const ERASE_PENDING_REQUESTS = eraseSome(
  "access_requests",
  "seq",
  `WHERE decision IS NULL AND (created_at < $1 OR created_at > $2) ORDER BY seq LIMIT $3`,
);

/** Each erases up to $3 of what lies between the times $1 and $2. */
const ERASE_DECIDED = [
  eraseSome(
    "access_requests",
    "seq",
    `WHERE decision IS NOT NULL AND decided_at > $1 AND decided_at < $2 ORDER BY decided_at LIMIT $3`,
  ),
  eraseSome(
    "redelivery_orders",
    "seq",
    `WHERE ended_at IS NOT NULL AND ended_at > $1 AND ended_at < $2 ORDER BY ended_at LIMIT $3`,
  ),
  // A key is kept as long as a session has it.
  eraseSome(
    "keys",
    "seq",
    `WHERE revoked_at IS NOT NULL AND revoked_at > $1 AND revoked_at < $2
      AND NOT EXISTS (SELECT 1 FROM sessions WHERE key_seq = keys.seq) LIMIT $3`,
  ),
];

/** The same for records of what happened. A step of traffic lies there when it ended there. */
const ERASE_TRAFFIC = [
  ...[MINUTE_MS, HOUR_MS].map((stepMs) =>
    eraseSome(
      "traffic",
      "account_seq, step_ms, at, stripe",
      `WHERE step_ms = ${stepMs} AND at > $1 AND at <= $2::bigint - ${stepMs} ORDER BY at LIMIT $3`,
    ),
  ),
  eraseSome(
    "host_traffic",
    "account_seq, at, host, stripe",
    `WHERE at > $1 AND at <= $2::bigint - ${HOUR_MS} ORDER BY at LIMIT $3`,
  ),
  eraseSome(
    "host_failures",
    "account_seq, host, stripe",
    `WHERE ended_at > $1 AND ended_at < $2 ORDER BY ended_at LIMIT $3`,
  ),
];

/** All statements that erase what nobody counts, for the tests of their plans. */
export const ERASE_UNCOUNTED = [
  ...ERASE_DECIDED,
  ...ERASE_TRAFFIC,
  ERASE_PENDING_REQUESTS,
  ERASE_SESSIONS,
  ERASE_LINKS,
] as const;

// The tables whose rows are counted as bytes of accounts.
const COUNTED_TABLES = `
  'tasks', 'queue', 'ends', 'ready', 'deliveries', 'outbox', 'attempts', 'idempotency_keys'`;

/**
 * The bytes that all accounts have, and the size of the other tables. The size of all tables would not tell when there is
 * room again: the server fills the space that erased rows left with new ones, but gives none of it back.
 */
export const USED_BYTES = `
  SELECT ${SUM_BYTES} + (
    SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class
    WHERE relnamespace = to_regnamespace(current_schema()) AND relkind = 'r' AND relname NOT IN (${COUNTED_TABLES})
  ) AS bytes`;

export function upkeepWrites(sql: BatchSql, changes: BatchChanges) {
  return {
    keepSecret: each(async ({ name, fresh }) => {
      sql.send(INSERT_SECRET, [name, fresh]);
      return (await sql.get<{ value: string }>(FIND_SECRET, [name]))?.value ?? fresh;
    }),

    eraseExpired: each(async ({ now, max }) => {
      const expired = takeWithin(await sql.all<ExpiredRow>(DUE_TASKS, [now, max]));
      if (expired.length === 0) return { looked: 0, erased: [] };
      const seqs = expired.map(({ seq }) => seq);
      // Afterwards a webhook that is not to be sent now is not sent again either.
      lockDeliveries(sql, seqs);
      const open = await sql.all<{ seq: number }>(KEEP_UNDELIVERED, [now, seqs]);
      const kept = new Set(open.map(({ seq }) => seq));
      const erased = expired.filter(({ seq }) => !kept.has(seq));
      await eraseTasks(
        sql,
        changes,
        erased.map(({ seq }) => seq),
      );
      return { looked: expired.length, erased: erased.map(({ id }) => id) };
    }),

    eraseStale: each(async (due) => {
      const answers = await eraseAnswers(sql, changes, due);
      return answers + (await eraseUncounted(sql, due));
    }),

    // The server gives erased rows' space to new rows.
    reclaimSpace: each(() => Promise.resolve("done" as const)),

    // Every batch locks its stripe and has an id: both are written, and so is its COMMIT.
    tryWrite: each(() => Promise.resolve()),
  } satisfies SetSteps;
}

async function eraseAnswers(
  sql: BatchSql,
  { counts }: BatchChanges,
  { answersBefore, max }: ArgsOf<"eraseStale">,
): Promise<number> {
  const sizes = await sql.all<Pick<SizedRow, "bytes">>(SIZE_ANSWERS, [answersBefore, max]);
  if (sizes.length === 0) return 0;
  const together = takeWithin(sizes).length;
  const answers = await sql.all<{ accountSeq: number; bytes: number }>(ERASE_ANSWERS, [
    answersBefore,
    together,
  ]);
  for (const { accountSeq, bytes } of answers) counts.add(accountSeq, "bytes", -bytes);
  return answers.length;
}

async function eraseUncounted(sql: BatchSql, due: ArgsOf<"eraseStale">): Promise<number> {
  const {
    decidedBefore,
    pendingBefore,
    trafficBefore,
    recordsAfter,
    sessionsBefore,
    linksBefore,
    max,
  } = due;
  const future = [recordsAfter, Number.MAX_SAFE_INTEGER, max];
  const run = (texts: readonly string[], values: readonly SqlValue[]) =>
    texts.map((text) => sql.run(text, values));
  const erased = await Promise.all([
    ...run(ERASE_DECIDED, [0, decidedBefore, max]),
    ...run(ERASE_DECIDED, future),
    ...run(ERASE_TRAFFIC, [0, trafficBefore, max]),
    ...run(ERASE_TRAFFIC, future),
    ...run([ERASE_PENDING_REQUESTS], [pendingBefore, recordsAfter, max]),
    ...run([ERASE_SESSIONS], [sessionsBefore, max]),
    ...run([ERASE_LINKS], [linksBefore, max]),
    runOn(sql, eraseAudit({ before: due.auditBefore, max })),
  ]);
  return erased.reduce((sum, count) => sum + count, 0);
}

export function upkeepReads(sql: Sql) {
  return {
    async usedBytes() {
      const row = await sql.get<{ bytes: number }>(USED_BYTES);
      return row?.bytes ?? 0;
    },
  } satisfies Partial<Store>;
}
