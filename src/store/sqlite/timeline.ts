import type { LeaseEnding } from "../../domain/lease/lease.ts";
import type { Delivery, Scope, TaskTimeline } from "../store.ts";
import { taskDeliveriesReader } from "./deliveries.ts";
import type { Connection } from "./machine/connection.ts";
import { SUMMARY_COLUMNS, toTask, type SummaryRow } from "./tasks.ts";

/**
 * Lengths are read without their texts: octet_length looks only at a row's header. Measured with a result of 4 MiB:
 * 0.05 ms, and 4 ms for the text.
 */
export const FIND_TIMELINE = `
  SELECT ${SUMMARY_COLUMNS}, t.seq, t.account_seq, t.ready, c.login, c.webhook_secret, c.webhook_secret_next,
    octet_length(i.input_text) AS input_bytes, octet_length(r.result_text) AS result_bytes, r.error_text,
    w.name AS worker, l.claimed_at, l.expires_at AS lease_expires_at, l.ending
  FROM tasks AS t
  JOIN accounts AS c ON c.seq = t.account_seq
  LEFT JOIN task_inputs AS i ON i.task_seq = t.seq
  LEFT JOIN task_results AS r ON r.task_seq = t.seq
  LEFT JOIN leases AS l ON l.task_seq = t.seq
  LEFT JOIN workers AS w ON w.seq = l.worker_seq
  WHERE t.id = @id AND (@scope IS NULL OR t.account_seq = @scope)`;

export const FIND_TEXTS = `
  SELECT i.input_text, r.result_text
  FROM tasks AS t
  LEFT JOIN task_inputs AS i ON i.task_seq = t.seq
  LEFT JOIN task_results AS r ON r.task_seq = t.seq
  WHERE t.seq = ?`;

interface TimelineRow extends SummaryRow {
  seq: number;
  account_seq: number;
  ready: number;
  login: string;
  webhook_secret: string;
  webhook_secret_next: string | null;
  input_bytes: number | null;
  result_bytes: number | null;
  error_text: string | null;
  worker: string | null;
  claimed_at: number | null;
  lease_expires_at: number | null;
  ending: LeaseEnding | null;
}

interface TextsRow {
  input_text: string | null;
  result_text: string | null;
}

const NO_TEXTS: TextsRow = { input_text: null, result_text: null };

/** The read on everything that happened to one task. */
export function timelineReads(connection: Connection) {
  const find = connection.prepare<[object], TimelineRow>(FIND_TIMELINE);
  const findTexts = connection.prepare<[number], TextsRow>(FIND_TEXTS);
  const deliveriesOf = taskDeliveriesReader(connection);

  return {
    // One snapshot: otherwise an attempt that ends in between would be missing from a delivery that has ended.
    findTimeline: connection.transaction(
      (query: { scope: Scope; id: string }): TaskTimeline | null => {
        const row = find.get(query);
        if (row === undefined) return null;
        const deliveries = deliveriesOf(row.seq);
        // Only the body of a postback holds them.
        const isSent = deliveries.some(({ kind }) => kind === "postback");
        const texts = isSent ? findTexts.get(row.seq) : undefined;
        return toTimeline(row, { texts: texts ?? NO_TEXTS, deliveries });
      },
    ),
  };
}

function toTimeline(
  row: TimelineRow,
  { texts, deliveries }: { readonly texts: TextsRow; readonly deliveries: readonly Delivery[] },
): TaskTimeline {
  return {
    accountId: row.account_seq,
    login: row.login,
    webhookSecret: row.webhook_secret,
    webhookSecretNext: row.webhook_secret_next,
    task: toTask({ ...row, ...texts }),
    isReady: row.ready === 1,
    inputBytes: row.input_bytes,
    resultBytes: row.result_bytes,
    lease: toLease(row),
    deliveries,
  };
}

function toLease(row: TimelineRow): TaskTimeline["lease"] {
  const { worker, claimed_at: claimedAt, lease_expires_at: expiresAt, ending } = row;
  // All are null when no worker had it.
  if (worker === null || claimedAt === null || expiresAt === null) return null;
  return { worker, claimedAt, expiresAt, ending };
}
