import { countAttempt } from "../../domain/stats/work-counts.ts";
import { ATTEMPT_OVERHEAD_BYTES, textBytes } from "../common/large-task.ts";
import type { DueItem, DueList } from "../store.ts";
import type { BatchChanges } from "./counts.ts";
import { type Connection, openReader } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

// Values by position: binding these 16 by name costs 1.4 µs more (measured).
//
// The seq alone does not suffice: when the task of the newest attempt is erased, SQLite gives its seq to the next
// attempt. The end of an attempt that was in flight then must not end the attempt of another task.
export const END_ATTEMPT = `
  UPDATE attempts
  SET ended_at = ?, outcome = ?, http_status = ?, error = ?, address = ?,
      dns_ms = ?, connect_ms = ?, tls_ms = ?, first_byte_ms = ?,
      response_excerpt = ?, refusal_text = ?, retry_after = ?
  WHERE seq = ? AND task_seq = ? AND kind = ? AND due_at = ?
    AND started_at IS NOT NULL AND ended_at IS NULL`;

const INSERT_ATTEMPT = `
  INSERT INTO attempts (account_seq, task_seq, kind, number, retry, host, due_at)
  VALUES (@accountId, @taskSeq, @kind, @number, @retry, @host, @dueAt)`;

const END_DELIVERY = `UPDATE deliveries SET ended = ? WHERE task_seq = ? AND kind = ?`;

export function attemptEndWrites(connection: Connection, changes: BatchChanges) {
  const endAttempt = connection.prepare(END_ATTEMPT);
  const insertAttempt = connection.prepare(INSERT_ATTEMPT);
  const endDelivery = connection.prepare(END_DELIVERY);

  return {
    recordAttempt(record) {
      const { attempt, result, decision, endedAt } = record;
      const { outcome, httpStatus, error, address, phases, responseExcerpt, retryAfter } = result;
      const refusalText = result.refusal === null ? null : JSON.stringify(result.refusal);
      const { seq, accountId, taskSeq, kind, host } = attempt;
      const { dnsMs, connectMs, tlsMs, firstByteMs } = phases;
      const end = [endedAt, outcome, httpStatus, error, address];
      const times = [dnsMs, connectMs, tlsMs, firstByteMs];
      const texts = [responseExcerpt, refusalText, retryAfter];
      const which = [seq, taskSeq, kind, attempt.dueAt];
      // An attempt that has already ended keeps its record, and nothing follows from it a second time.
      if (endAttempt.run(...end, ...times, ...texts, ...which).changes === 0) return;
      changes.changed.add(accountId);
      const bytes = ATTEMPT_OVERHEAD_BYTES + textBytes(error, ...texts);
      countAttempt(changes, record, bytes);
      if (decision.state !== "scheduled") {
        endDelivery.run(decision.state, taskSeq, kind);
        return;
      }
      const { dueAt, retry } = decision;
      const lane = { accountId, host };
      insertAttempt.run({ ...lane, taskSeq, kind, dueAt, retry, number: attempt.number + 1 });
    },
  } satisfies Steps;
}

// A task that ended keeps its place until its webhooks have.
const ITEMS = `
  SELECT at, what, taskId, kind FROM (
    SELECT due_at AS at, 'attempt' AS what, tasks.id AS taskId, kind
      FROM attempts JOIN tasks ON tasks.seq = task_seq WHERE attempts.started_at IS NULL
    UNION ALL
    SELECT start_at, 'task_start', id, NULL FROM tasks WHERE state = 'delayed'
    UNION ALL
    SELECT expires_at, 'lease_end', id, NULL FROM (
      SELECT leases.expires_at, id FROM leases JOIN tasks ON tasks.seq = task_seq WHERE ending IS NULL)
    UNION ALL
    SELECT erase_at + $now - $steady, 'erasure', id, NULL FROM tasks WHERE erase_at IS NOT NULL)
  WHERE at > $now ORDER BY at, taskId, kind LIMIT $max`;

const QUEUED = "SELECT EXISTS (SELECT 1 FROM tasks WHERE state = 'queued')";

/** Opens the list of a file that is served. */
export function openDueList(file: string): DueList {
  const connection = openReader(file);
  const items = connection.prepare<[object], DueItem>(ITEMS);
  const queued = connection.prepare<[], number>(QUEUED).pluck();
  return {
    list: (query) => items.all(query),
    isQueued: () => queued.get() === 1,
    close: () => void connection.close(),
  };
}
