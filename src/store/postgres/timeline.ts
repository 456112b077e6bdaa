import type { LeaseEnding } from "../../domain/lease/lease.ts";
import { toTask, type SummaryRow, type TaskRow } from "../common/row.ts";
import { SECRET_COLUMNS } from "../sql/accounts.ts";
import type { Store, TaskTimeline, WebhookSecrets } from "../store.ts";
import { deliveriesOf } from "./deliveries.ts";
import type { Sql } from "./machine/sql.ts";
import { STATE_JOINS, SUMMARY_COLUMNS, toUuid } from "./task-columns.ts";

/** Lengths are read without their texts: octet_length looks only at what a row says of a text kept elsewhere. */
const FIND_TIMELINE = `
  SELECT ${SUMMARY_COLUMNS}, t.seq, t.account_seq AS "accountId", t.trace_text AS "traceText", c.login, ${SECRET_COLUMNS},
    EXISTS (SELECT 1 FROM ready AS r WHERE r.task_seq = t.seq) AS "isReady",
    octet_length(t.input_text) AS "inputBytes", octet_length(e.result_text) AS "resultBytes",
    e.error_text AS "errorText", w.name AS worker, coalesce(q.claimed_at, e.claimed_at) AS "claimedAt",
    coalesce(q.lease_until, e.lease_until) AS "leaseExpiresAt", coalesce(q.lease_ending, e.lease_ending) AS ending
  FROM tasks AS t
  JOIN accounts AS c ON c.seq = t.account_seq
  ${STATE_JOINS}
  LEFT JOIN workers AS w ON w.seq = coalesce(q.worker_seq, e.worker_seq)
  WHERE t.id = $1 AND ($2::bigint IS NULL OR t.account_seq = $2)`;

const FIND_TEXTS = `
  SELECT t.input_text AS "inputText", e.result_text AS "resultText"
  FROM tasks AS t LEFT JOIN ends AS e ON e.task_seq = t.seq
  WHERE t.seq = $1`;

type RowFields =
  | "accountId"
  | "isReady"
  | "login"
  | "traceText"
  | keyof WebhookSecrets
  | "inputBytes"
  | "resultBytes";

interface TimelineRow extends SummaryRow, Pick<TaskTimeline, RowFields> {
  readonly seq: number;
  readonly errorText: string | null;
  readonly worker: string | null;
  readonly claimedAt: number | null;
  readonly leaseExpiresAt: number | null;
  readonly ending: LeaseEnding | null;
}

type Texts = Pick<TaskRow, "inputText" | "resultText">;

const NO_TEXTS: Texts = { inputText: null, resultText: null };

export function timelineReads(sql: Sql) {
  return {
    async findTimeline({ scope, id }) {
      const row = await sql.get<TimelineRow>(FIND_TIMELINE, [toUuid(id), scope]);
      if (row === undefined) return null;
      const deliveries = await deliveriesOf(sql, row.seq);
      // Only the body of a postback holds them.
      const isSent = deliveries.some(({ kind }) => kind === "postback");
      const texts = isSent ? await sql.get<Texts>(FIND_TEXTS, [row.seq]) : undefined;
      const { accountId, login, webhookSecret, webhookSecretNext, traceText } = row;
      const { isReady, inputBytes, resultBytes } = row;
      const of = { accountId, login, webhookSecret, webhookSecretNext, traceText };
      const task = toTask({ ...row, ...(texts ?? NO_TEXTS) });
      return { ...of, isReady, inputBytes, resultBytes, task, lease: toLease(row), deliveries };
    },
  } satisfies Partial<Store>;
}

function toLease(row: TimelineRow): TaskTimeline["lease"] {
  const { worker, claimedAt, leaseExpiresAt: expiresAt, ending } = row;
  // All are null when no worker had it.
  if (worker === null || claimedAt === null || expiresAt === null) return null;
  return { worker, claimedAt, expiresAt, ending };
}
