import type { DeliveryKind } from "../../domain/delivery.ts";
import type { AttemptRef, ClaimedAttempt, Lane, LaneClaim, LaneShare } from "../store.ts";
import type { Connection } from "./connection.ts";
import { TASK_COLUMNS, toTask, type TaskRow } from "./tasks.ts";

// A lane is read retry by retry: each is a seek into attempts_due, and fresh attempts come first. The bound
// is beyond any schedule that the configuration admits.
const RETRIES_MAX = 100;

/** The smallest retry count above the last one that the lane has scheduled attempts for; 0 are first attempts. */
export const NEXT_RETRY = `
  SELECT min(retry) FROM attempts WHERE started_at IS NULL AND host = ? AND retry > ?`;

export const LANE_DUE_AT = `
  SELECT min(due_at) FROM attempts WHERE started_at IS NULL AND host = ? AND retry = ?`;

export const SELECT_DUE = `
  SELECT a.seq, coalesce(octet_length(i.input_text), 0) + coalesce(octet_length(r.result_text), 0) AS bytes
  FROM attempts AS a
  LEFT JOIN task_inputs AS i ON i.task_seq = a.task_seq AND a.kind = 'postback'
  LEFT JOIN task_results AS r ON r.task_seq = a.task_seq AND a.kind = 'postback'
  WHERE a.started_at IS NULL AND a.host = @host AND a.retry = @retry AND a.due_at <= @now
  ORDER BY a.due_at
  LIMIT @max`;

export const START_ATTEMPT = `UPDATE attempts SET started_at = ? WHERE seq = ?`;

// What one claim may bring into memory; beyond it attempts stay due. 512 results of 4 MiB took the process down.
const CLAIM_BYTES_MAX = 32 * 1024 * 1024;
// What one lane may have of that, its first attempt aside: others are claimed beside it.
const LANE_BYTES_MAX = 8 * 1024 * 1024;

const ATTEMPT_REF_COLUMNS = `
  a.seq AS attempt_seq, a.task_seq, t.account_seq, t.id AS task_id, a.kind, a.number, a.retry, a.host, a.due_at,
  a.started_at AS attempt_started_at`;

/** All that sending an attempt needs: a pingback sends nothing of the task's own. */
export const SELECT_STARTED = `
  SELECT ${ATTEMPT_REF_COLUMNS}, d.url, c.webhook_secret, c.webhook_secret_next, ${TASK_COLUMNS}
  FROM attempts AS a
  JOIN deliveries AS d ON d.task_seq = a.task_seq AND d.kind = a.kind
  JOIN tasks AS t ON t.seq = a.task_seq
  JOIN accounts AS c ON c.seq = t.account_seq
  LEFT JOIN task_inputs AS i ON i.task_seq = t.seq AND a.kind = 'postback'
  LEFT JOIN task_results AS r ON r.task_seq = t.seq AND a.kind = 'postback'
  WHERE a.seq = ? AND a.started_at IS NOT NULL`;

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
  SELECT ${ATTEMPT_REF_COLUMNS}
  FROM attempts AS a
  JOIN tasks AS t ON t.seq = a.task_seq
  WHERE a.started_at IS NOT NULL AND a.ended_at IS NULL
  ORDER BY a.seq`;

interface AttemptRefRow {
  attempt_seq: number;
  task_seq: number;
  account_seq: number;
  task_id: string;
  kind: DeliveryKind;
  number: number;
  retry: number;
  host: string;
  due_at: number;
  attempt_started_at: number;
}

interface StartedRow extends AttemptRefRow, TaskRow {
  url: string;
  webhook_secret: string;
  webhook_secret_next: string | null;
}

/** A claim being made: what it has started so far, and how large that is to send. */
interface OpenClaim {
  readonly now: number;
  bytes: number;
  /** The attempts by `seq`. */
  readonly started: number[];
}

/** What a claim started, to be read by {@link attemptClaimReads} once it is committed. */
export interface StartedAttempts {
  readonly started: readonly number[];
  /** What is left in each lane that was asked for. */
  readonly lanes: readonly Lane[];
}

/** The write that starts attempts. Runs inside the transaction of its batch. */
export function attemptClaimWrites(connection: Connection) {
  const lanes = laneReader(connection);
  const selectDue = connection.prepare<[object], { seq: number; bytes: number }>(SELECT_DUE);
  const start = connection.prepare(START_ATTEMPT);

  /** Starts up to `max` attempts of one retry count; answers how many, short of `max` when no more are due. */
  function claimDue(due: { host: string; retry: number; max: number }, claim: OpenClaim): number {
    const { now, bytes: before } = claim;
    let started = 0;
    for (const { seq, bytes } of selectDue.all({ ...due, now })) {
      const isOver = claim.bytes + bytes > before + LANE_BYTES_MAX;
      if (!hasRoom(claim, bytes) || (started > 0 && isOver)) break;
      claim.bytes += bytes;
      start.run(now, seq);
      claim.started.push(seq);
      started++;
    }
    return started;
  }

  function claimLane({ host, fresh, retries }: LaneShare, claim: OpenClaim): void {
    if (fresh > 0) claimDue({ host, retry: 0, max: fresh }, claim);
    let left = retries;
    for (const { retry } of retries === 0 ? [] : lanes.retries(host)) {
      left -= claimDue({ host, retry, max: left }, claim);
      if (left === 0) return;
    }
  }

  return {
    claimAttempts(order: LaneClaim): StartedAttempts {
      const claim: OpenClaim = { now: order.now, bytes: 0, started: [] };
      for (const lane of order.lanes) claimLane(lane, claim);
      return { started: claim.started, lanes: order.lanes.map(({ host }) => lanes.read(host)) };
    },
  };
}

/** The reads on what is scheduled and what is in flight. */
export function attemptClaimReads(connection: Connection) {
  const lanes = laneReader(connection);
  const listHosts = connection.prepare<[], { host: string }>(LIST_HOSTS);
  const listInFlight = connection.prepare<[], AttemptRefRow>(LIST_IN_FLIGHT);
  const selectStarted = connection.prepare<[number], StartedRow>(SELECT_STARTED);

  return {
    listLanes(): readonly Lane[] {
      return listHosts.all().map(({ host }) => lanes.read(host));
    },

    listInFlight(): readonly AttemptRef[] {
      return listInFlight.all().map(toAttemptRef);
    },

    /** What a claim started. Read by this thread: rows with bodies cost the writer 50 µs each, and their way here. */
    readStarted(seqs: readonly number[]): readonly ClaimedAttempt[] {
      return seqs.flatMap((seq) => selectStarted.all(seq).map(toClaimedAttempt));
    },
  };
}

// One is always taken, however large: it would never be sent otherwise.
function hasRoom(claim: OpenClaim, bytes: number): boolean {
  return claim.started.length === 0 || claim.bytes + bytes <= CLAIM_BYTES_MAX;
}

/** A lane's scheduled attempts of one retry count: when the earliest is due. */
interface RetryQueue {
  readonly retry: number;
  readonly dueAt: number;
}

/** Reads what is scheduled in one lane, by seeks only. */
function laneReader(connection: Connection) {
  const nextRetry = connection.prepare<[string, number], number | null>(NEXT_RETRY).pluck();
  const dueAt = connection.prepare<[string, number], number | null>(LANE_DUE_AT).pluck();

  function retries(host: string): readonly RetryQueue[] {
    const found: RetryQueue[] = [];
    for (let last = 0; found.length <= RETRIES_MAX;) {
      const retry = nextRetry.get(host, last) ?? null;
      if (retry === null) break;
      found.push({ retry, dueAt: dueAt.get(host, retry) ?? Infinity });
      last = retry;
    }
    return found.toSorted((one, other) => one.dueAt - other.dueAt);
  }

  return {
    /** The retry counts from 1 that the lane has scheduled attempts for, the one that waits longest first. */
    retries,

    read(host: string): Lane {
      const [first] = retries(host);
      return { host, freshDueAt: dueAt.get(host, 0) ?? null, retryDueAt: first?.dueAt ?? null };
    },
  };
}

function toAttemptRef(row: AttemptRefRow): AttemptRef {
  const { kind, number, retry, host } = row;
  return {
    seq: row.attempt_seq,
    taskSeq: row.task_seq,
    accountId: row.account_seq,
    taskId: row.task_id,
    kind,
    number,
    retry,
    host,
    dueAt: row.due_at,
    startedAt: row.attempt_started_at,
  };
}

function toClaimedAttempt(row: StartedRow): ClaimedAttempt {
  return {
    ...toAttemptRef(row),
    url: row.url,
    webhookSecret: row.webhook_secret,
    webhookSecretNext: row.webhook_secret_next,
    task: toTask(row),
  };
}
