import { countNewSeries } from "../../domain/stats/work-counts.ts";
import {
  type DeliveryKind,
  type EndedDeliveryState,
  FIRST_ATTEMPT,
  shownDeliveryState,
} from "../../domain/webhook/delivery.ts";
import { type AttemptRow, type TaskRow, toAttempt, toTask } from "../common/row.ts";
import { SECRET_COLUMNS } from "../sql/accounts.ts";
import type { Delivery, LaneRef, Redelivery, Store, WebhookSecrets } from "../store.ts";
import { recordAttempts } from "./attempts.ts";
import type { BatchChanges } from "./batch-changes.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { type SetSteps, each, inWaves } from "./steps.ts";
import { STATE_JOINS, TASK_COLUMNS, toUuid } from "./task-columns.ts";

const FIND_TASK_SEQ = `SELECT seq FROM tasks WHERE id = $1 AND account_seq = $2`;

const HASTEN_ATTEMPTS = `
  UPDATE outbox SET due_at = least(due_at, $3)
  WHERE task_seq = $1 AND ($2::webhook_kind IS NULL OR kind = $2) AND started_at IS NULL
  RETURNING kind, host`;

const SELECT_ENDED = `
  SELECT kind FROM deliveries
  WHERE task_seq = $1 AND ended IS NOT NULL AND ($2::webhook_kind IS NULL OR kind = $2)
    AND ($3::delivery_end[] IS NULL OR ended = ANY ($3))`;

// A task may be sent again without limit; the list of its attempts has one.
const ATTEMPTS_SHOWN_MAX = 100;

/** The attempts of a task's deliveries. A delivery that waits for its task has none, and is left out. */
const SELECT_ATTEMPTS = `
  SELECT d.kind, d.url, d.ended, a.*
  FROM deliveries AS d CROSS JOIN LATERAL (
    SELECT seq, number, due_at AS "dueAt", started_at AS "startedAt", NULL::bigint AS "endedAt",
      NULL::attempt_outcome AS outcome, NULL::int AS "httpStatus", NULL AS error, NULL AS address,
      NULL::float8 AS "dnsMs", NULL::float8 AS "connectMs", NULL::float8 AS "tlsMs", NULL::float8 AS "firstByteMs",
      NULL AS "responseExcerpt", NULL AS "refusalText", NULL AS "retryAfter"
    FROM outbox WHERE task_seq = d.task_seq AND kind = d.kind
    UNION ALL (
      SELECT seq, number, due_at, started_at, ended_at, outcome, http_status, error, address, dns_ms, connect_ms,
        tls_ms, first_byte_ms, response_excerpt, refusal_text, retry_after
      FROM attempts WHERE task_seq = d.task_seq AND kind = d.kind
      ORDER BY seq DESC LIMIT ${ATTEMPTS_SHOWN_MAX}
    )
    ORDER BY seq DESC LIMIT ${ATTEMPTS_SHOWN_MAX}
  ) AS a
  WHERE d.task_seq = $1
  ORDER BY d.kind, a.seq`;

const FIND_ANY_TASK = `
  SELECT ${TASK_COLUMNS}, t.seq, t.trace_text AS "traceText", c.login, ${SECRET_COLUMNS}
  FROM tasks AS t JOIN accounts AS c ON c.seq = t.account_seq ${STATE_JOINS}
  WHERE t.id = $1`;

/** An attempt with its delivery. */
interface DeliveryRow extends AttemptRow, Pick<Delivery, "kind" | "url"> {
  readonly seq: number;
  readonly ended: EndedDeliveryState | null;
}

interface AnyTaskRow extends TaskRow, WebhookSecrets {
  readonly traceText: string | null;
  readonly seq: number;
  readonly login: string;
}

/** The tools that the steps of a batch work with. */
interface Batch {
  readonly sql: BatchSql;
  readonly changes: BatchChanges;
}

export function deliveryWrites(sql: BatchSql, changes: BatchChanges) {
  const batch = { sql, changes };
  return {
    recordAttempt: (records) =>
      inWaves(
        records,
        ({ attempt }) => attempt.seq,
        async (wave) => {
          await recordAttempts(batch, wave);
          return wave.map(() => {});
        },
      ),

    redeliver: each((order) => redeliver(batch, order)),
  } satisfies SetSteps;
}

async function redeliver(batch: Batch, order: Redelivery): Promise<readonly LaneRef[]> {
  const { accountId, id, kind, states, now } = order;
  const { sql, changes } = batch;
  const task = await sql.get<{ seq: number }>(FIND_TASK_SEQ, [toUuid(id), accountId]);
  if (task === undefined) return [];
  changes.changed.add(accountId);
  const [hastened, ended] = await Promise.all([
    states === null ? sql.all<SentAgain>(HASTEN_ATTEMPTS, [task.seq, kind, now]) : [],
    sql.all<Pick<SentAgain, "kind">>(SELECT_ENDED, [task.seq, kind, states]),
  ]);
  const begun = await beginSeries(
    batch,
    ended.map((delivery) => ({ accountSeq: accountId, taskSeq: task.seq, kind: delivery.kind })),
    now,
  );
  return [...hastened, ...begun]
    .toSorted((a, b) => (a.kind < b.kind ? -1 : 1))
    .map(({ host }) => ({ accountId, host }));
}

interface SentAgain {
  readonly kind: DeliveryKind;
  readonly host: string;
}

export function deliveryReads(sql: Sql) {
  return {
    async listDeliveries({ id, accountId }) {
      const task = await sql.get<{ seq: number }>(FIND_TASK_SEQ, [toUuid(id), accountId]);
      return task === undefined ? null : await deliveriesOf(sql, task.seq);
    },
  } satisfies Partial<Store>;
}

/** For the operator. */
export function taskDeliveryReads(sql: Sql) {
  return {
    async findTaskDeliveries(id) {
      const row = await sql.get<AnyTaskRow>(FIND_ANY_TASK, [toUuid(id)]);
      if (row === undefined) return null;
      const { login, webhookSecret, webhookSecretNext, traceText } = row;
      const head = { login, webhookSecret, webhookSecretNext, traceText };
      const deliveries = await deliveriesOf(sql, row.seq);
      return { ...head, task: toTask(row), deliveries };
    },
  } satisfies Partial<Store>;
}

/** Reads a task's deliveries, each with its last attempts, in the order in which they were made. */
export async function deliveriesOf(sql: Sql, taskSeq: number): Promise<readonly Delivery[]> {
  const rows = await sql.all<DeliveryRow>(SELECT_ATTEMPTS, [taskSeq]);
  return [...Map.groupBy(rows, ({ kind }) => kind)].map(([kind, ofDelivery]) => {
    const attempts = ofDelivery.map(
      ({ kind: _kind, url: _url, ended: _ended, seq: _seq, ...row }) => toAttempt(row),
    );
    const { url = "", ended = null } = ofDelivery[0] ?? {};
    return { kind, url, state: shownDeliveryState(ended ?? "open", attempts.at(-1)), attempts };
  });
}

/** A delivery that has ended. */
export interface EndedDelivery {
  readonly accountSeq: number;
  readonly taskSeq: number;
  readonly kind: DeliveryKind;
}

/** A delivery that was begun anew: its host, and the state in which it had ended. */
export interface BegunDelivery extends EndedDelivery {
  readonly host: string;
  readonly state: EndedDeliveryState;
}

// Locked first: a batch that begins the same delivery at the same time finds that it has not ended any more.
const BEGIN_SERIES = `
  WITH found AS (
    SELECT a.account_seq, d.task_seq, d.kind, d.host, d.ended, a.next_seq
    FROM unnest($1::bigint[], $2::webhook_kind[], $3::bigint[], $4::bigint[])
      AS a (task_seq, kind, account_seq, next_seq)
    JOIN deliveries AS d ON d.task_seq = a.task_seq AND d.kind = a.kind
    WHERE d.ended IS NOT NULL
    ORDER BY d.task_seq, d.kind
    FOR UPDATE OF d
  ), begun AS (
    UPDATE deliveries AS d SET ended = NULL FROM found AS f WHERE d.task_seq = f.task_seq AND d.kind = f.kind
  ), sent AS (
    INSERT INTO outbox (seq, task_seq, kind, account_seq, number, retry, host, due_at)
    SELECT next_seq, task_seq, kind, account_seq, ${FIRST_ATTEMPT.number}, ${FIRST_ATTEMPT.retry}, host, $5
    FROM found
  )
  SELECT account_seq AS "accountSeq", task_seq AS "taskSeq", kind, host, ended AS state FROM found`;

/**
 * Begins a fresh series for each of these deliveries that still has ended: its first attempt is due at `now`. Answers
 * those that it began.
 */
export async function beginSeries(
  { sql, changes }: { readonly sql: BatchSql; readonly changes: BatchChanges },
  deliveries: readonly EndedDelivery[],
  now: number,
): Promise<readonly BegunDelivery[]> {
  if (deliveries.length === 0) return [];
  const begun = await sql.all<BegunDelivery>(BEGIN_SERIES, [
    deliveries.map(({ taskSeq }) => taskSeq),
    deliveries.map(({ kind }) => kind),
    deliveries.map(({ accountSeq }) => accountSeq),
    deliveries.map(() => sql.nextSeq()),
    now,
  ]);
  for (const delivery of begun) {
    changes.changed.add(delivery.accountSeq);
    countNewSeries(changes, delivery);
  }
  return begun;
}
