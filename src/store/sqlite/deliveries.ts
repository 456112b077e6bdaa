import type { AttemptOutcome, DeliveryKind, Refusal } from "../../domain/delivery.ts";
import type { TaskKey } from "../../domain/task.ts";
import type {
  Attempt,
  AttemptRecord,
  AttemptRef,
  ClaimedAttempt,
  ClaimedAttempts,
  Delivery,
  Lane,
  LaneClaim,
  Redelivery,
} from "../store.ts";
import type { Connection } from "./connection.ts";
import { TASK_COLUMNS, toTask, type TaskRow } from "./tasks.ts";

// A lane is read retry by retry: each is a seek into attempts_due, and fresh attempts come first. The bound
// is beyond any schedule that the configuration admits.
const RETRIES_MAX = 100;

/** The smallest retry count above the last one that the lane has scheduled attempts for. */
export const NEXT_RETRY = `
  SELECT min(retry) FROM attempts WHERE started_at IS NULL AND host = ? AND retry > ?`;

export const LANE_DUE_AT = `
  SELECT min(due_at) FROM attempts WHERE started_at IS NULL AND host = ? AND retry = ?`;

export const SELECT_DUE = `
  SELECT a.seq, coalesce(octet_length(i.input_text), 0) + coalesce(octet_length(r.result_text), 0) AS bytes
  FROM attempts AS a
  LEFT JOIN task_inputs AS i ON i.task_seq = a.task_seq
  LEFT JOIN task_results AS r ON r.task_seq = a.task_seq
  WHERE a.started_at IS NULL AND a.host = @host AND a.retry = @retry AND a.due_at <= @now
  ORDER BY a.due_at
  LIMIT @max`;

export const START_ATTEMPT = `UPDATE attempts SET started_at = ? WHERE seq = ?`;

// What one claim may carry to the main thread; beyond it attempts stay due. 512 results of 4 MiB in one message
// took the process down.
const CLAIM_BYTES_MAX = 32 * 1024 * 1024;

const ATTEMPT_REF_COLUMNS = `
  a.seq AS attempt_seq, a.task_seq, a.kind, a.number, a.retry, a.host, a.due_at`;

export const SELECT_CLAIMED = `
  SELECT ${ATTEMPT_REF_COLUMNS}, d.url, c.webhook_secret, c.webhook_secret_next, ${TASK_COLUMNS}
  FROM attempts AS a
  JOIN deliveries AS d ON d.task_seq = a.task_seq AND d.kind = a.kind
  JOIN tasks AS t ON t.seq = a.task_seq
  JOIN accounts AS c ON c.seq = t.account_seq
  LEFT JOIN task_inputs AS i ON i.task_seq = t.seq
  LEFT JOIN task_results AS r ON r.task_seq = t.seq
  WHERE a.seq = ?`;

// A loose index scan: one seek for each host, however many attempts wait there.
export const LIST_HOSTS = `
  WITH RECURSIVE hosts (host) AS (
    SELECT min(host) FROM attempts WHERE started_at IS NULL
    UNION ALL
    SELECT (SELECT min(host) FROM attempts WHERE started_at IS NULL AND host > hosts.host)
    FROM hosts WHERE hosts.host IS NOT NULL
  )
  SELECT host FROM hosts WHERE host IS NOT NULL`;

export const LIST_IN_FLIGHT = `
  SELECT ${ATTEMPT_REF_COLUMNS} FROM attempts AS a
  WHERE a.started_at IS NOT NULL AND a.ended_at IS NULL
  ORDER BY a.seq`;

export const END_ATTEMPT = `
  UPDATE attempts
  SET ended_at = @endedAt, outcome = @outcome, http_status = @httpStatus, error = @error,
      address = @address, dns_ms = @dnsMs, connect_ms = @connectMs, tls_ms = @tlsMs,
      first_byte_ms = @firstByteMs, response_excerpt = @responseExcerpt, refusal_text = @refusalText
  WHERE seq = @seq AND started_at IS NOT NULL AND ended_at IS NULL`;

const INSERT_ATTEMPT = `
  INSERT INTO attempts (task_seq, kind, number, retry, host, due_at)
  VALUES (@taskSeq, @kind, @number, @retry, @host, @dueAt)`;

const SET_DELIVERY_STATE = `UPDATE deliveries SET state = @state WHERE task_seq = @taskSeq AND kind = @kind`;

const SELECT_TO_REDELIVER = `
  SELECT kind, host, state FROM deliveries
  WHERE task_seq = @taskSeq AND state <> 'waiting' AND (@kind IS NULL OR kind = @kind)`;

export const HASTEN_ATTEMPT = `
  UPDATE attempts SET due_at = min(due_at, @now)
  WHERE task_seq = @taskSeq AND kind = @kind AND started_at IS NULL`;

const FIND_TASK_SEQ = `SELECT seq FROM tasks WHERE id = @id AND account_seq = @accountId`;

const SELECT_DELIVERIES = `
  SELECT kind, url, state FROM deliveries WHERE task_seq = ? AND state <> 'waiting' ORDER BY kind`;

// A task may be sent again without end; what is shown of it has one.
const ATTEMPTS_SHOWN_MAX = 100;

export const SELECT_ATTEMPTS = `
  SELECT number, due_at, started_at, ended_at, outcome, http_status, error, address, dns_ms,
    connect_ms, tls_ms, first_byte_ms, response_excerpt, refusal_text
  FROM attempts WHERE task_seq = ? AND kind = ? ORDER BY seq DESC LIMIT ${ATTEMPTS_SHOWN_MAX}`;

interface AttemptRefRow {
  attempt_seq: number;
  task_seq: number;
  kind: DeliveryKind;
  number: number;
  retry: number;
  host: string;
  due_at: number;
}

interface ClaimedRow extends AttemptRefRow, TaskRow {
  url: string;
  webhook_secret: string;
  webhook_secret_next: string | null;
}

interface DeliveryRow {
  kind: DeliveryKind;
  url: string;
  state: "open" | "delivered" | "given_up" | "refused";
}

interface RedeliveredRow {
  kind: DeliveryKind;
  host: string;
  state: DeliveryRow["state"];
}

interface AttemptRow {
  number: number;
  due_at: number;
  started_at: number | null;
  ended_at: number | null;
  outcome: AttemptOutcome | null;
  http_status: number | null;
  error: string | null;
  address: string | null;
  dns_ms: number | null;
  connect_ms: number | null;
  tls_ms: number | null;
  first_byte_ms: number | null;
  response_excerpt: string | null;
  refusal_text: string | null;
}

/** A claim being made: what it has started so far. */
interface OpenClaim {
  readonly now: number;
  bytes: number;
  readonly attempts: ClaimedAttempt[];
}

/** The writes on deliveries and attempts. Each runs inside the transaction of its batch. */
export function deliveryWrites(connection: Connection) {
  const lanes = laneReader(connection);
  const selectDue = connection.prepare<[object], { seq: number; bytes: number }>(SELECT_DUE);
  const start = connection.prepare(START_ATTEMPT);
  const selectClaimed = connection.prepare<[number], ClaimedRow>(SELECT_CLAIMED);
  const endAttempt = connection.prepare(END_ATTEMPT);
  const insertAttempt = connection.prepare(INSERT_ATTEMPT);
  const setState = connection.prepare(SET_DELIVERY_STATE);

  function claimLane(lane: { host: string; max: number }, claim: OpenClaim): void {
    let left = lane.max;
    for (const retry of lanes.retries(lane.host)) {
      const due = selectDue.all({ host: lane.host, retry, now: claim.now, max: left });
      for (const { seq, bytes } of due) {
        // One is always taken, however large: it would never be sent otherwise.
        if (claim.attempts.length > 0 && claim.bytes + bytes > CLAIM_BYTES_MAX) return;
        claim.bytes += bytes;
        start.run(claim.now, seq);
        const row = selectClaimed.get(seq);
        if (row !== undefined) claim.attempts.push(toClaimedAttempt(row));
      }
      left -= due.length;
      if (left <= 0) return;
    }
  }

  return {
    claimAttempts(order: LaneClaim): ClaimedAttempts {
      const claim: OpenClaim = { now: order.now, bytes: 0, attempts: [] };
      for (const lane of order.lanes) claimLane(lane, claim);
      const left = order.lanes.map(({ host }) => ({ host, dueAt: lanes.dueAt(host) }));
      return { attempts: claim.attempts, lanes: left };
    },

    recordAttempt(record: AttemptRecord): void {
      const { attempt, result, decision, endedAt } = record;
      const { phases, refusal, ...columns } = result;
      const refusalText = refusal === null ? null : JSON.stringify(refusal);
      const row = { ...columns, ...phases, refusalText, endedAt, seq: attempt.seq };
      // An attempt that has ended already keeps its record, and nothing follows from it a second time.
      if (endAttempt.run(row).changes === 0) return;
      const { taskSeq, kind, host } = attempt;
      if (decision.state !== "scheduled") {
        setState.run({ taskSeq, kind, state: decision.state });
        return;
      }
      const { dueAt, retry } = decision;
      insertAttempt.run({ taskSeq, kind, host, dueAt, retry, number: attempt.number + 1 });
    },

    redeliver: redelivering(connection),
  };
}

function redelivering(connection: Connection): (order: Redelivery) => readonly string[] {
  const findTaskSeq = connection.prepare<[object], number>(FIND_TASK_SEQ).pluck();
  const select = connection.prepare<[object], RedeliveredRow>(SELECT_TO_REDELIVER);
  const hasten = connection.prepare(HASTEN_ATTEMPT);
  const setState = connection.prepare(SET_DELIVERY_STATE);
  const insertAttempt = connection.prepare(INSERT_ATTEMPT);

  return ({ accountId, id, kind: wanted, now }) => {
    const taskSeq = findTaskSeq.get({ accountId, id });
    if (taskSeq === undefined) return [];
    return select.all({ taskSeq, kind: wanted }).flatMap(({ kind, host, state }) => {
      if (state === "open") return hasten.run({ taskSeq, kind, now }).changes > 0 ? [host] : [];
      setState.run({ taskSeq, kind, state: "open" });
      insertAttempt.run({ taskSeq, kind, host, number: 1, retry: 0, dueAt: now });
      return [host];
    });
  };
}

/** The reads on deliveries and attempts. */
export function deliveryReads(connection: Connection) {
  const lanes = laneReader(connection);
  const listHosts = connection.prepare<[], { host: string }>(LIST_HOSTS);
  const listInFlight = connection.prepare<[], AttemptRefRow>(LIST_IN_FLIGHT);
  const findTaskSeq = connection.prepare<[object], number>(FIND_TASK_SEQ).pluck();
  const selectDeliveries = connection.prepare<[number], DeliveryRow>(SELECT_DELIVERIES);
  const selectAttempts = connection.prepare<[number, string], AttemptRow>(SELECT_ATTEMPTS);

  return {
    listLanes(): readonly Lane[] {
      return listHosts.all().map(({ host }) => ({ host, dueAt: lanes.dueAt(host) }));
    },

    listInFlight(): readonly AttemptRef[] {
      return listInFlight.all().map(toAttemptRef);
    },

    listDeliveries(key: TaskKey): readonly Delivery[] | null {
      const taskSeq = findTaskSeq.get(key);
      if (taskSeq === undefined) return null;
      return selectDeliveries.all(taskSeq).map((row) => {
        const newestFirst = selectAttempts.all(taskSeq, row.kind);
        return toDelivery(row, newestFirst.toReversed().map(toAttempt));
      });
    },
  };
}

/** Reads what is scheduled in one lane, by seeks only. */
function laneReader(connection: Connection) {
  const nextRetry = connection.prepare<[string, number], number | null>(NEXT_RETRY).pluck();
  const dueAt = connection.prepare<[string, number], number | null>(LANE_DUE_AT).pluck();

  function retries(host: string): readonly number[] {
    const found: number[] = [];
    for (let last = -1; found.length <= RETRIES_MAX;) {
      const retry = nextRetry.get(host, last) ?? null;
      if (retry === null) break;
      found.push(retry);
      last = retry;
    }
    return found;
  }

  return {
    /** The retry counts that the lane has scheduled attempts for, fewest first. */
    retries,

    /** When the lane's earliest scheduled attempt is due. */
    dueAt(host: string): number | null {
      const dues = retries(host).map((retry) => dueAt.get(host, retry) ?? Infinity);
      return dues.length === 0 ? null : Math.min(...dues);
    },
  };
}

function toAttemptRef(row: AttemptRefRow): AttemptRef {
  const { kind, number, retry, host } = row;
  return {
    seq: row.attempt_seq,
    taskSeq: row.task_seq,
    kind,
    number,
    retry,
    host,
    dueAt: row.due_at,
  };
}

function toClaimedAttempt(row: ClaimedRow): ClaimedAttempt {
  return {
    ...toAttemptRef(row),
    url: row.url,
    webhookSecret: row.webhook_secret,
    webhookSecretNext: row.webhook_secret_next,
    task: toTask(row),
  };
}

function toDelivery(row: DeliveryRow, attempts: readonly Attempt[]): Delivery {
  return { kind: row.kind, url: row.url, state: toDeliveryState(row.state, attempts), attempts };
}

// While a delivery is open, its last attempt says whether it waits or is being sent.
function toDeliveryState(
  state: DeliveryRow["state"],
  attempts: readonly Attempt[],
): Delivery["state"] {
  if (state !== "open") return state;
  return attempts.at(-1)?.startedAt === null ? "scheduled" : "in_flight";
}

function toAttempt(row: AttemptRow): Attempt {
  return {
    number: row.number,
    dueAt: row.due_at,
    startedAt: row.started_at,
    endedAt: row.ended_at,
    outcome: row.outcome,
    httpStatus: row.http_status,
    error: row.error,
    address: row.address,
    phases: {
      dnsMs: row.dns_ms,
      connectMs: row.connect_ms,
      tlsMs: row.tls_ms,
      firstByteMs: row.first_byte_ms,
    },
    responseExcerpt: row.response_excerpt,
    refusal: row.refusal_text === null ? null : toRefusal(row.refusal_text),
  };
}

function toRefusal(text: string): Refusal {
  // Written by recordAttempt and by nobody else.
  return JSON.parse(text) as Refusal;
}
