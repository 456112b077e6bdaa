import { countNewSeries } from "../../domain/stats/work-counts.ts";
import {
  type DeliveryKind,
  type EndedDeliveryState,
  FIRST_ATTEMPT,
  shownDeliveryState,
} from "../../domain/webhook/delivery.ts";
import { type AttemptRow, type TaskRow, toAttempt, toTask } from "../common/row.ts";
import type { WriteRules } from "../common/write-rule.ts";
import type { Delivery, LaneRef, WebhookSecrets } from "../store.ts";
import { SECRET_COLUMNS } from "./accounts.ts";
import { eachDialect, onlySqlite, statement } from "./statement.ts";
import { ofTasks } from "./task-columns.ts";
import { all, get, send, type Batch, type StoreUseCases, type UseCase } from "./use-case.ts";

export const FIND_OWN_TASK = statement(
  `SELECT seq FROM tasks WHERE id = @id::uuid AND account_seq = @accountId`,
);

/** Finds a task of any account. */
export const FIND_ANY_TASK = ofTasks(
  (of) => `
  SELECT ${of.all}, t.seq, t.trace_text AS "traceText", c.login, c.disabled_at AS "disabledAt",
    ${SECRET_COLUMNS}
  FROM tasks AS t JOIN accounts AS c ON c.seq = t.account_seq ${of.joins}
  WHERE t.id = @id::uuid`,
);

// A task may be sent again without limit; the list of its attempts has one.
const ATTEMPTS_SHOWN_MAX = 100;

const ATTEMPT_COLUMNS = `
  number, due_at AS "dueAt", started_at AS "startedAt", ended_at AS "endedAt", outcome, http_status AS "httpStatus",
  error, address, dns_ms AS "dnsMs", connect_ms AS "connectMs", tls_ms AS "tlsMs", first_byte_ms AS "firstByteMs",
  response_excerpt AS "responseExcerpt", refusal_text AS "refusalText", retry_after AS "retryAfter"`;

/**
 * The last attempts of a task's deliveries. A delivery that waits for its task has no attempts, and is left out. One
 * statement: an attempt that ends between two would be missing from a delivery that has ended.
 */
export const SELECT_ATTEMPTS = eachDialect({
  sqlite: `
    SELECT d.kind, d.url, coalesce(d.ended, 'open') AS state, a.seq, ${ATTEMPT_COLUMNS}
    FROM deliveries AS d CROSS JOIN attempts AS a ON a.seq IN (
      SELECT seq FROM attempts WHERE task_seq = d.task_seq AND kind = d.kind
      ORDER BY seq DESC LIMIT ${ATTEMPTS_SHOWN_MAX}
    )
    WHERE d.task_seq = @taskSeq
    ORDER BY d.kind, a.seq`,
  postgres: `
    SELECT d.kind, d.url, coalesce(d.ended::text, 'open') AS state, a.*
    FROM deliveries AS d CROSS JOIN LATERAL (
      SELECT seq, number, due_at AS "dueAt", started_at AS "startedAt", NULL::bigint AS "endedAt",
        NULL::attempt_outcome AS outcome, NULL::int AS "httpStatus", NULL AS error, NULL AS address,
        NULL::float8 AS "dnsMs", NULL::float8 AS "connectMs", NULL::float8 AS "tlsMs", NULL::float8 AS "firstByteMs",
        NULL AS "responseExcerpt", NULL AS "refusalText", NULL AS "retryAfter"
      FROM outbox WHERE task_seq = d.task_seq AND kind = d.kind
      UNION ALL (
        SELECT seq, ${ATTEMPT_COLUMNS} FROM attempts WHERE task_seq = d.task_seq AND kind = d.kind
        ORDER BY seq DESC LIMIT ${ATTEMPTS_SHOWN_MAX}
      )
      ORDER BY seq DESC LIMIT ${ATTEMPTS_SHOWN_MAX}
    ) AS a
    WHERE d.task_seq = @taskSeq
    ORDER BY d.kind, a.seq`,
});

const hastenAttempts = (table: string, least: string): string => `
  UPDATE ${table} SET due_at = ${least}(due_at, @now)
  WHERE task_seq = @taskSeq AND (@kind::webhook_kind IS NULL OR kind = @kind) AND started_at IS NULL
  RETURNING kind, host`;

export const HASTEN_SCHEDULED = eachDialect({
  sqlite: hastenAttempts("attempts", "min"),
  postgres: hastenAttempts("outbox", "least"),
});

export const SELECT_ENDED = statement(`
  SELECT kind FROM deliveries
  WHERE task_seq = @taskSeq AND ended IS NOT NULL AND (@kind::webhook_kind IS NULL OR kind = @kind)
    AND (@states::delivery_end[] IS NULL OR ended = ANY (@states))`);

/**
 * Finds which deliveries have ended; PostgreSQL starts their new attempts in the same statement. It locks them first: a
 * batch that begins the same delivery at the same time finds that it no longer has ended.
 */
export const BEGIN_SERIES = eachDialect({
  sqlite: `
    SELECT @accountIds ->> t.key AS "accountId", d.task_seq AS "taskSeq", d.kind, d.host, d.ended AS state
    FROM json_each(@taskSeqs) AS t
      CROSS JOIN deliveries AS d ON d.task_seq = t.value AND d.kind = @kinds ->> t.key
    WHERE d.ended IS NOT NULL`,
  postgres: `
    WITH found AS (
      SELECT a.account_seq, d.task_seq, d.kind, d.host, d.ended, a.next_seq
      FROM unnest(@taskSeqs::bigint[], @kinds::webhook_kind[], @accountIds::bigint[], @nextSeqs::bigint[])
        AS a (task_seq, kind, account_seq, next_seq)
      JOIN deliveries AS d ON d.task_seq = a.task_seq AND d.kind = a.kind
      WHERE d.ended IS NOT NULL
      ORDER BY d.task_seq, d.kind
      FOR UPDATE OF d
    ), begun AS (
      UPDATE deliveries AS d SET ended = NULL FROM found AS f WHERE d.task_seq = f.task_seq AND d.kind = f.kind
    ), sent AS (
      INSERT INTO outbox (seq, task_seq, kind, account_seq, number, retry, host, due_at)
      SELECT next_seq, task_seq, kind, account_seq, ${FIRST_ATTEMPT.number}, ${FIRST_ATTEMPT.retry}, host, @now
      FROM found
    )
    SELECT account_seq AS "accountId", task_seq AS "taskSeq", kind, host, ended AS state FROM found`,
});

const OPEN_DELIVERY = onlySqlite(
  `UPDATE deliveries SET ended = NULL WHERE task_seq = @taskSeq AND kind = @kind`,
);

const INSERT_FIRST_ATTEMPT = onlySqlite(`
  INSERT INTO attempts (account_seq, task_seq, kind, number, retry, host, due_at)
  VALUES (@accountId, @taskSeq, @kind, ${FIRST_ATTEMPT.number}, ${FIRST_ATTEMPT.retry}, @host, @now)`);

interface AnyTaskRow extends TaskRow, WebhookSecrets {
  readonly traceText: string | null;
  readonly seq: number;
  readonly login: string;
  readonly disabledAt: number | null;
}

/** An attempt with its delivery. */
interface DeliveryRow extends AttemptRow, Pick<Delivery, "kind" | "url"> {
  readonly seq: number;
  readonly state: "open" | EndedDeliveryState;
}

export function deliveryWrites(batch: Batch) {
  return {
    *redeliver({ accountId, id, kind, states, now }) {
      const taskSeq = yield* findOwnTask({ id, accountId });
      if (taskSeq === null) return [];
      batch.changes.changed.add(accountId);
      type SentAgain = Pick<BegunDelivery, "kind" | "host">;
      const hastened =
        states === null ? yield* all<SentAgain>(HASTEN_SCHEDULED, { taskSeq, kind, now }) : [];
      const ended = yield* all<Pick<SentAgain, "kind">>(SELECT_ENDED, { taskSeq, kind, states });
      const deliveries = ended.map((each) => ({ accountId, taskSeq, kind: each.kind }));
      const begun = yield* beginSeries(batch, deliveries, now);
      return [...hastened, ...begun]
        .toSorted((a, b) => (a.kind < b.kind ? -1 : 1))
        .map(({ host }): LaneRef => ({ accountId, host }));
    },
  } satisfies StoreUseCases;
}

/** A delivery that has ended. */
export interface EndedDelivery {
  readonly accountId: number;
  readonly taskSeq: number;
  readonly kind: DeliveryKind;
}

/** A delivery that was begun again: its host, and the state in which it had ended. */
export interface BegunDelivery extends EndedDelivery {
  readonly host: string;
  readonly state: EndedDeliveryState;
}

/**
 * Starts the given deliveries that are still ended again: the first attempt is due at `now`. Returns the deliveries
 * that it began.
 */
export function* beginSeries(
  { changes, nextSeq }: Batch,
  deliveries: readonly EndedDelivery[],
  now: number,
): UseCase<readonly BegunDelivery[]> {
  if (deliveries.length === 0) return [];
  const begun = yield* all<BegunDelivery>(BEGIN_SERIES, {
    taskSeqs: deliveries.map(({ taskSeq }) => taskSeq),
    kinds: deliveries.map(({ kind }) => kind),
    accountIds: deliveries.map(({ accountId }) => accountId),
    nextSeqs: deliveries.map(() => nextSeq()),
    now,
  });
  for (const delivery of begun) {
    yield* send(OPEN_DELIVERY, { ...delivery });
    yield* send(INSERT_FIRST_ATTEMPT, { ...delivery, now });
    changes.changed.add(delivery.accountId);
    countNewSeries(changes, delivery);
  }
  return begun;
}

export const deliveryReads = {
  *listDeliveries(key) {
    const taskSeq = yield* findOwnTask(key);
    return taskSeq === null ? null : yield* deliveriesOf(taskSeq);
  },
} satisfies StoreUseCases;

function* findOwnTask(key: { id: string; accountId: number }): UseCase<number | null> {
  const { id, accountId } = key;
  return (yield* get<{ seq: number }>(FIND_OWN_TASK, { id, accountId }))?.seq ?? null;
}

/** For the operator. */
export const taskDeliveryReads = {
  *findTaskDeliveries(id) {
    const row = yield* get<AnyTaskRow>(FIND_ANY_TASK, { id });
    if (row === undefined) return null;
    const { login, disabledAt, webhookSecret, webhookSecretNext, traceText } = row;
    const deliveries = yield* deliveriesOf(row.seq);
    const of = { login, disabledAt, webhookSecret, webhookSecretNext, traceText };
    return { ...of, task: toTask(row), deliveries };
  },
} satisfies StoreUseCases;

/** Reads a task's deliveries, each with its last attempts, in the order in which they were made. */
export function* deliveriesOf(taskSeq: number): UseCase<readonly Delivery[]> {
  const rows = yield* all<DeliveryRow>(SELECT_ATTEMPTS, { taskSeq });
  return [...Map.groupBy(rows, ({ kind }) => kind)].map(([kind, ofDelivery]) => {
    const attempts = ofDelivery.map(
      ({ kind: _kind, url: _url, state: _state, seq: _seq, ...row }) => toAttempt(row),
    );
    const { url = "", state = "open" } = ofDelivery[0] ?? {};
    return { kind, url, state: shownDeliveryState(state, attempts.at(-1)), attempts };
  });
}

export const deliveryRules = {
  redeliver: {
    weight: { weight: 2, mayShed: true },
    hasEffect: (lanes) => lanes.length > 0,
    news: (_, lanes) => ({ lanes }),
  },
} satisfies WriteRules;
