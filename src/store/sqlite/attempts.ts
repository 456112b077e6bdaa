import { HOUR_MS } from "../../domain/clock/duration.ts";
import { StartedAttempts } from "../../domain/webhook/delivery.ts";
import { type StartedRow, toClaimedAttempt } from "../common/row.ts";
import { SECRET_COLUMNS } from "../sql/accounts.ts";
import {
  emptyLane,
  type AttemptPage,
  type AttemptQuery,
  type AttemptRef,
  type ClaimedAttempt,
  type Lane,
  type LaneClaim,
  type LaneRef,
  type LaneShare,
  type LeftWork,
  type ListedAttempt,
} from "../store.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";
import { COLUMNS_UNLESS_LARGE, LARGE_BYTES } from "./tasks.ts";

// A lane is read retry count by retry count, with fresh attempts first. Each is a seek into attempts_due. The bound is
// beyond any schedule that the configuration allows.
const RETRIES_MAX = 100;

/**
 * The smallest retry count above the last one for which the lane has scheduled attempts; 0 stands for first attempts.
 */
export const NEXT_RETRY = `
  SELECT min(retry) FROM attempts
  WHERE started_at IS NULL AND account_seq = ? AND host = ? AND retry > ?`;

export const LANE_DUE_AT = `
  SELECT min(due_at) FROM attempts
  WHERE started_at IS NULL AND account_seq = ? AND host = ? AND retry = ?`;

export const SELECT_DUE = `
  SELECT a.seq, coalesce(octet_length(i.input_text), 0) + coalesce(octet_length(r.result_text), 0) AS bytes
  FROM attempts AS a
  LEFT JOIN task_inputs AS i ON i.task_seq = a.task_seq AND a.kind = 'postback'
  LEFT JOIN task_results AS r ON r.task_seq = a.task_seq AND a.kind = 'postback'
  WHERE a.started_at IS NULL AND a.account_seq = @accountId AND a.host = @host
    AND a.retry = @retry AND a.due_at <= @now
  ORDER BY a.due_at
  LIMIT @max`;

export const START_ATTEMPT = `UPDATE attempts SET started_at = ? WHERE seq = ?`;

const ATTEMPT_REF_COLUMNS = `
  a.seq, a.task_seq AS taskSeq, t.account_seq AS accountId, t.id AS taskId, a.kind, a.number, a.retry, a.host,
  a.due_at AS dueAt`;

/**
 * Everything that is needed to send an attempt except a large postback's texts; a pingback sends nothing of the task.
 */
export const SELECT_STARTED = `
  SELECT ${ATTEMPT_REF_COLUMNS}, a.started_at AS sentAt, d.url, ${SECRET_COLUMNS},
    ${COLUMNS_UNLESS_LARGE}, ${LARGE_BYTES} AS largeBytes,
    t.trace_text AS traceText
  FROM attempts AS a
  JOIN deliveries AS d ON d.task_seq = a.task_seq AND d.kind = a.kind
  JOIN tasks AS t ON t.seq = a.task_seq
  JOIN accounts AS c ON c.seq = t.account_seq
  LEFT JOIN task_inputs AS i ON i.task_seq = t.seq AND a.kind = 'postback'
  LEFT JOIN task_results AS r ON r.task_seq = t.seq AND a.kind = 'postback'
  WHERE a.seq = ? AND a.started_at IS NOT NULL`;

export const ANY_SCHEDULED = `
  SELECT EXISTS (SELECT 1 FROM attempts INDEXED BY attempts_due WHERE started_at IS NULL)`;

// A loose index scan: one seek for each account, however many attempts wait there.
export const LIST_WAITING_ACCOUNTS = `
  WITH RECURSIVE waiting (account_seq) AS (
    SELECT min(account_seq) FROM attempts WHERE started_at IS NULL
    UNION ALL
    SELECT (
      SELECT min(account_seq) FROM attempts
      WHERE started_at IS NULL AND account_seq > waiting.account_seq
    )
    FROM waiting WHERE waiting.account_seq IS NOT NULL
  )
  SELECT account_seq FROM waiting WHERE account_seq IS NOT NULL`;

// One row after the other by two seeks at most. A seek for each lane, and some for its retries, took ten times as long.
export const LIST_QUEUES = `
  WITH RECURSIVE queues (host, retry, due_at) AS (
    SELECT host, retry, due_at FROM attempts
    WHERE seq = (
      SELECT seq FROM attempts WHERE started_at IS NULL AND account_seq = @accountId
      ORDER BY host, retry, due_at
      LIMIT 1
    )
    UNION ALL
    SELECT a.host, a.retry, a.due_at
    FROM queues CROSS JOIN attempts AS a
    WHERE a.seq = coalesce(
      (
        SELECT seq FROM attempts
        WHERE started_at IS NULL AND account_seq = @accountId
          AND host = queues.host AND retry > queues.retry
        ORDER BY retry, due_at
        LIMIT 1
      ),
      (
        SELECT seq FROM attempts
        WHERE started_at IS NULL AND account_seq = @accountId AND host > queues.host
        ORDER BY host, retry, due_at
        LIMIT 1
      )
    )
  )
  SELECT host, retry, due_at AS dueAt FROM queues`;

/** True for an account whose work is suspended: nothing of it is sent until the account is enabled. */
export const IS_SUSPENDED = `SELECT disabled_at IS NOT NULL FROM accounts WHERE seq = ?`;

export const LIST_IN_FLIGHT = `
  SELECT ${ATTEMPT_REF_COLUMNS}, a.started_at AS startedAt
  FROM attempts AS a
  JOIN tasks AS t ON t.seq = a.task_seq
  WHERE a.started_at IS NOT NULL AND a.ended_at IS NULL
  ORDER BY a.seq`;

interface OpenClaim {
  readonly now: number;
  readonly attempts: StartedAttempts;
}

/** Up to `max` attempts of one retry count. */
interface DueOrder extends LaneRef {
  readonly retry: number;
  readonly max: number;
}

/** The attempts that a claim started, which {@link attemptClaimReads} reads once they are committed. */
interface CommittedClaim {
  readonly started: readonly number[];
  /** The work that is left in each requested lane. */
  readonly lanes: readonly Lane[];
  readonly suspended: readonly number[];
}

export function attemptClaimWrites(connection: Connection) {
  const lanes = laneReader(connection);
  const selectDue = connection.prepare<[object], { seq: number; bytes: number }>(SELECT_DUE);
  const start = connection.prepare(START_ATTEMPT);
  const isSuspended = suspendedReader(connection);

  /** Returns the number of started attempts: fewer than `max` if no more are due. */
  function claimDue({ accountId, ...due }: DueOrder, { now, attempts }: OpenClaim): number {
    let started = 0;
    for (const { seq, bytes } of selectDue.all({ accountId, ...due, now })) {
      if (!attempts.start({ seq, accountId, bytes })) break;
      start.run(now, seq);
      started++;
    }
    return started;
  }

  function claimLane({ accountId, host, fresh, retries }: LaneShare, claim: OpenClaim): void {
    const lane = { accountId, host };
    if (fresh > 0) claimDue({ ...lane, retry: 0, max: fresh }, claim);
    let left = retries;
    for (const { retry } of retries === 0 ? [] : lanes.retries(lane)) {
      left -= claimDue({ ...lane, retry, max: left }, claim);
      if (left === 0) return;
    }
  }

  return {
    claimAttempts(order: LaneClaim): CommittedClaim {
      const accounts = [...new Set(order.lanes.map(({ accountId }) => accountId))];
      const suspended = new Set(accounts.filter(isSuspended));
      const claim: OpenClaim = { now: order.now, attempts: new StartedAttempts() };
      for (const lane of order.lanes) if (!suspended.has(lane.accountId)) claimLane(lane, claim);
      const left = order.lanes.map((lane) =>
        suspended.has(lane.accountId) ? emptyLane(lane) : lanes.read(lane),
      );
      return { started: claim.attempts.started, lanes: left, suspended: [...suspended] };
    },
  };
}

export function laneReads(connection: Connection) {
  const listAccounts = connection.prepare<[], number>(LIST_WAITING_ACCOUNTS).pluck();
  const listQueues = connection.prepare<[object], HostQueue>(LIST_QUEUES);
  const isSuspended = suspendedReader(connection);

  function lanesOf(accountId: number): readonly Lane[] {
    const byHost = Map.groupBy(listQueues.all({ accountId }), ({ host }) => host);
    return [...byHost].map(([host, queues]) => {
      const fresh = queues.filter(({ retry }) => retry === 0);
      const retries = queues.filter(({ retry }) => retry > 0);
      return {
        accountId,
        host,
        freshDueAt: earliestOf(fresh),
        retryDueAt: earliestOf(retries),
      };
    });
  }

  function listLanes({ accountId: of }: { accountId: number | "all" }): readonly Lane[] {
    const accounts = of === "all" ? listAccounts.all() : [of];
    return accounts.filter((accountId) => !isSuspended(accountId)).flatMap(lanesOf);
  }

  return {
    listLanes,

    // Never called: no other node exists.
    listDueLanes({ until }: { since: number; until: number }): readonly Lane[] {
      const unlessLater = (dueAt: number | null) =>
        dueAt === null || dueAt > until ? null : dueAt;
      return listLanes({ accountId: "all" })
        .map(({ freshDueAt, retryDueAt, ...lane }) => ({
          ...lane,
          freshDueAt: unlessLater(freshDueAt),
          retryDueAt: unlessLater(retryDueAt),
        }))
        .filter(({ freshDueAt, retryDueAt }) => freshDueAt !== null || retryDueAt !== null);
    },
  };
}

export function attemptClaimReads(connection: Connection) {
  const listInFlight = connection.prepare<[], AttemptRef>(LIST_IN_FLIGHT);
  const selectStarted = connection.prepare<[number], StartedRow>(SELECT_STARTED);
  const anyScheduled = connection.prepare<[], 0 | 1>(ANY_SCHEDULED).pluck();

  return {
    hasScheduled: () => anyScheduled.get() === 1,

    listInFlight: ({ of }: LeftWork) => (of === "ended nodes" ? [] : listInFlight.all()),

    /**
     * Reads the attempts that a claim started. This thread reads them, because rows with bodies would cost the writer
     * 50 µs each, and be copied from there to here.
     */
    readStarted(seqs: readonly number[]): readonly ClaimedAttempt[] {
      return seqs.flatMap((seq) => selectStarted.all(seq).map(toClaimedAttempt));
    },
  };
}

export function suspendedReader(connection: Connection): (accountId: number) => boolean {
  const select = connection.prepare<[number], 0 | 1>(IS_SUSPENDED).pluck();
  return (accountId) => select.get(accountId) === 1;
}

/** A lane's scheduled attempts of one retry count, and when the earliest is due. */
interface RetryQueue {
  readonly retry: number;
  readonly dueAt: number;
}

interface HostQueue extends RetryQueue {
  readonly host: string;
}

function earliestOf(queues: readonly RetryQueue[]): number | null {
  return queues.reduce<number | null>(
    (earliest, { dueAt }) => (earliest === null ? dueAt : Math.min(earliest, dueAt)),
    null,
  );
}

/** Reads what is scheduled in one lane, by seeks alone. */
function laneReader(connection: Connection) {
  const nextRetry = connection.prepare<[number, string, number], number | null>(NEXT_RETRY).pluck();
  const dueAt = connection.prepare<[number, string, number], number | null>(LANE_DUE_AT).pluck();

  function retries({ accountId, host }: LaneRef): readonly RetryQueue[] {
    const found: RetryQueue[] = [];
    for (let last = 0; found.length <= RETRIES_MAX;) {
      const retry = nextRetry.get(accountId, host, last) ?? null;
      if (retry === null) break;
      found.push({ retry, dueAt: dueAt.get(accountId, host, retry) ?? Infinity });
      last = retry;
    }
    return found.toSorted((one, other) => one.dueAt - other.dueAt);
  }

  return {
    /** The retry counts from 1 for which the lane has scheduled attempts; the longest-waiting first. */
    retries,

    read(lane: LaneRef): Lane {
      const { accountId, host } = lane;
      const [first] = retries(lane);
      const freshDueAt = dueAt.get(accountId, host, 0) ?? null;
      return { accountId, host, freshDueAt, retryDueAt: first?.dueAt ?? null };
    },
  };
}

/**
 * Drops the task, because the task of a claimed attempt has input and result, which must not be copied to another
 * thread without need.
 */
export function onlyRef(attempt: AttemptRef): AttemptRef {
  const { seq, taskSeq, accountId, taskId, kind, number, retry, host, dueAt, startedAt } = attempt;
  return { seq, taskSeq, accountId, taskId, kind, number, retry, host, dueAt, startedAt };
}

// The most attempts of a page, of all accounts.
const EXAMINED_MAX = 5000;

const COLUMNS = `
  a.seq, t.id AS taskId, t.type, t.tag, a.kind, a.number, a.due_at AS dueAt, a.started_at AS startedAt`;

/** Walks through the attempts of all accounts, within bounds: an index by account would cost every attempt a write. */
export const LIST_ATTEMPTS = `
  SELECT ${COLUMNS}
  FROM attempts AS a CROSS JOIN tasks AS t ON t.seq = a.task_seq
  WHERE a.seq > @after AND a.seq <= @to AND a.account_seq = @accountId
  ORDER BY a.seq
  LIMIT @limit`;

export const LIST_SCHEDULED = `
  SELECT ${COLUMNS}
  FROM (
    SELECT * FROM attempts INDEXED BY attempts_due WHERE account_seq = @accountId AND started_at IS NULL
    LIMIT ${EXAMINED_MAX}
  ) AS a CROSS JOIN tasks AS t ON t.seq = a.task_seq
  ORDER BY a.due_at, a.seq
  LIMIT @limit`;

const NEWEST_SEQ = `SELECT max(seq) FROM attempts`;

export function attemptListReads(connection: Connection) {
  const list = connection.prepare<[object], ListedAttempt>(LIST_ATTEMPTS);
  const listScheduled = connection.prepare<[object], ListedAttempt>(LIST_SCHEDULED);
  const newestSeq = connection.prepare<[], number | null>(NEWEST_SEQ).pluck();

  return {
    // One snapshot: an attempt that is scheduled in between belongs to the next page, and to no other.
    listAttempts: connection.transaction((query: AttemptQuery): AttemptPage => {
      const { accountId, after, limit } = query;
      const newest = newestSeq.get() ?? 0;
      if (after === null) {
        return { attempts: listScheduled.all({ accountId, limit }), next: newest, hasMore: false };
      }
      const to = Math.min(after + EXAMINED_MAX, newest);
      const attempts = list.all({ accountId, after, to, limit });
      const next = attempts.length === limit ? (attempts.at(-1)?.seq ?? to) : to;
      return { attempts, next, hasMore: next < newest };
    }),
  } satisfies Steps;
}

export const LIST_SENDING_ACCOUNTS = `
  SELECT seq FROM accounts INDEXED BY accounts_enabled WHERE disabled_at IS NULL`;

/**
 * Hosts that delivered something for an account and have been answered since: an attempt without an answer in the hour
 * of the last delivery may have come after it. Reads so many of the newest hourly sums; the most used hosts come first.
 */
export const PROVEN_HOSTS = `
  SELECT host
  FROM (
    SELECT host, at, succeeded FROM host_traffic
    WHERE account_seq = @accountId AND at >= @from
    ORDER BY at DESC
    LIMIT @examined
  ) AS t
  WHERE succeeded > 0 AND NOT EXISTS (
    SELECT 1 FROM host_failures AS f
    WHERE f.account_seq = @accountId AND f.host = t.host
      AND f.http_status IS NULL AND f.ended_at >= t.at
  )
  GROUP BY host
  ORDER BY sum(succeeded) DESC, host
  LIMIT @max`;

// The sums that are read for each requested host: most hosts have one in several hours.
const EXAMINED_PER_HOST = 4;

export function provenLaneReads(connection: Connection) {
  const listAccounts = connection.prepare<[], number>(LIST_SENDING_ACCOUNTS).pluck();
  const provenHosts = connection.prepare<[object], string>(PROVEN_HOSTS).pluck();

  return {
    listProvenLanes({ since, max }) {
      const accounts = listAccounts.all();
      const each = Math.ceil(max / Math.max(1, accounts.length));
      const from = since - (since % HOUR_MS);
      const bounds = { from, max: each, examined: EXAMINED_PER_HOST * each };
      return accounts.flatMap((accountId) =>
        provenHosts.all({ accountId, ...bounds }).map((host) => ({ accountId, host })),
      );
    },
  } satisfies Steps;
}
