import { countAttempt, countNewSeries } from "../../domain/stats/work-counts.ts";
import {
  type DeliveryKind,
  type EndedDeliveryState,
  FIRST_ATTEMPT,
  beginsAnew,
  shownDeliveryState,
} from "../../domain/webhook/delivery.ts";
import { ATTEMPT_OVERHEAD_BYTES, textBytes } from "../common/large-task.ts";
import { type AttemptRow, toAttempt } from "../common/row.ts";
import type { Delivery, DueItem, DueList, LaneRef, Redelivery } from "../store.ts";
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
  VALUES (@accountSeq, @taskSeq, @kind, @number, @retry, @host, @dueAt)`;

const SET_DELIVERY_STATE = `UPDATE deliveries SET state = ? WHERE task_seq = ? AND kind = ?`;

const SELECT_TO_REDELIVER = `
  SELECT kind, host, state FROM deliveries
  WHERE task_seq = @taskSeq AND state <> 'waiting' AND (@kind IS NULL OR kind = @kind)
    AND (@statesText IS NULL OR state IN (SELECT value FROM json_each(@statesText)))`;

export const HASTEN_ATTEMPT = `
  UPDATE attempts SET due_at = min(due_at, @now)
  WHERE task_seq = @taskSeq AND kind = @kind AND started_at IS NULL`;

const FIND_TASK_SEQ = `SELECT seq FROM tasks WHERE id = @id AND account_seq = @accountId`;

const SELECT_DELIVERIES = `
  SELECT kind, url, state FROM deliveries WHERE task_seq = ? AND state <> 'waiting' ORDER BY kind`;

// A task may be sent again without limit; the list of its attempts has one.
const ATTEMPTS_SHOWN_MAX = 100;

export const SELECT_ATTEMPTS = `
  SELECT number, due_at AS dueAt, started_at AS startedAt, ended_at AS endedAt, outcome,
    http_status AS httpStatus, error, address, dns_ms AS dnsMs, connect_ms AS connectMs,
    tls_ms AS tlsMs, first_byte_ms AS firstByteMs, response_excerpt AS responseExcerpt,
    refusal_text AS refusalText, retry_after AS retryAfter
  FROM attempts WHERE task_seq = ? AND kind = ? ORDER BY seq DESC LIMIT ${ATTEMPTS_SHOWN_MAX}`;

interface DeliveryRow extends Pick<Delivery, "kind" | "url"> {
  readonly state: "open" | EndedDeliveryState;
}

interface RedeliveredRow extends Pick<DeliveryRow, "kind" | "state"> {
  readonly host: string;
}

export function deliveryWrites(connection: Connection, changes: BatchChanges) {
  const endAttempt = connection.prepare(END_ATTEMPT);
  const insertAttempt = connection.prepare(INSERT_ATTEMPT);
  const setState = connection.prepare(SET_DELIVERY_STATE);

  return {
    recordAttempt(record) {
      const { attempt, result, decision, endedAt } = record;
      const { outcome, httpStatus, error, address, phases, responseExcerpt, retryAfter } = result;
      const refusalText = result.refusal === null ? null : JSON.stringify(result.refusal);
      const { seq, accountId: accountSeq, taskSeq, kind, host } = attempt;
      const { dnsMs, connectMs, tlsMs, firstByteMs } = phases;
      const end = [endedAt, outcome, httpStatus, error, address];
      const times = [dnsMs, connectMs, tlsMs, firstByteMs];
      const texts = [responseExcerpt, refusalText, retryAfter];
      const which = [seq, taskSeq, kind, attempt.dueAt];
      // An attempt that has already ended keeps its record, and nothing follows from it a second time.
      if (endAttempt.run(...end, ...times, ...texts, ...which).changes === 0) return;
      changes.changed.add(accountSeq);
      const bytes = ATTEMPT_OVERHEAD_BYTES + textBytes(error, ...texts);
      countAttempt(changes, record, bytes);
      if (decision.state !== "scheduled") {
        setState.run(decision.state, taskSeq, kind);
        return;
      }
      const { dueAt, retry } = decision;
      const lane = { accountSeq, host };
      insertAttempt.run({ ...lane, taskSeq, kind, dueAt, retry, number: attempt.number + 1 });
    },

    redeliver: redelivering(connection, changes),
  } satisfies Steps;
}

function redelivering(
  connection: Connection,
  changes: BatchChanges,
): (order: Redelivery) => readonly LaneRef[] {
  const findTaskSeq = connection.prepare<[object], number>(FIND_TASK_SEQ).pluck();
  const select = connection.prepare<[object], RedeliveredRow>(SELECT_TO_REDELIVER);
  const hasten = connection.prepare(HASTEN_ATTEMPT);
  const startSeries = seriesStarter(connection, changes);

  return ({ accountId, id, kind: wanted, states, now }) => {
    const taskSeq = findTaskSeq.get({ accountId, id });
    if (taskSeq === undefined) return [];
    changes.changed.add(accountId);
    const statesText = states === null ? null : JSON.stringify(states);
    return select.all({ taskSeq, kind: wanted, statesText }).flatMap(({ kind, host, state }) => {
      const lane = { accountId, host };
      if (!beginsAnew(state)) {
        return hasten.run({ taskSeq, kind, now }).changes > 0 ? [lane] : [];
      }
      startSeries({ accountSeq: accountId, taskSeq, kind, host, state }, now);
      return [lane];
    });
  };
}

export interface EndedDelivery {
  readonly accountSeq: number;
  readonly taskSeq: number;
  readonly kind: DeliveryKind;
  readonly host: string;
  readonly state: EndedDeliveryState;
}

/** Begins a fresh series for an ended delivery: its first attempt is due at `now`. */
export function seriesStarter(
  connection: Connection,
  changes: BatchChanges,
): (delivery: EndedDelivery, now: number) => void {
  const setState = connection.prepare(SET_DELIVERY_STATE);
  const insertAttempt = connection.prepare(INSERT_ATTEMPT);

  return ({ accountSeq, taskSeq, kind, host, state }, now) => {
    setState.run("open", taskSeq, kind);
    insertAttempt.run({ accountSeq, taskSeq, kind, host, ...FIRST_ATTEMPT, dueAt: now });
    changes.changed.add(accountSeq);
    countNewSeries(changes, { accountSeq, host, state });
  };
}

export function deliveryReads(connection: Connection) {
  const findTaskSeq = connection.prepare<[object], number>(FIND_TASK_SEQ).pluck();
  const deliveriesOf = taskDeliveriesReader(connection);

  return {
    listDeliveries(key) {
      const taskSeq = findTaskSeq.get(key);
      return taskSeq === undefined ? null : deliveriesOf(taskSeq);
    },
  } satisfies Steps;
}

/** Reads a task's deliveries, each with its last attempts, in the order in which they were made. */
export function taskDeliveriesReader(
  connection: Connection,
): (taskSeq: number) => readonly Delivery[] {
  const selectDeliveries = connection.prepare<[number], DeliveryRow>(SELECT_DELIVERIES);
  const selectAttempts = connection.prepare<[number, string], AttemptRow>(SELECT_ATTEMPTS);

  return (taskSeq) =>
    selectDeliveries.all(taskSeq).map(({ kind, url, state }) => {
      const attempts = selectAttempts.all(taskSeq, kind).toReversed().map(toAttempt);
      return { kind, url, state: shownDeliveryState(state, attempts.at(-1)), attempts };
    });
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
