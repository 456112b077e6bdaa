import { countAttempt } from "../../domain/stats/work-counts.ts";
import { StartedAttempts } from "../../domain/webhook/delivery.ts";
import {
  ATTEMPT_OVERHEAD_BYTES,
  type PostbackRow,
  READ_BYTES_MAX,
  postbackRequest,
  textBytes,
} from "../common/large-task.ts";
import { type StartedRow, toClaimedAttempt } from "../common/row.ts";
import { SECRET_COLUMNS } from "../sql/accounts.ts";
import { ON_POSTGRES } from "../sql/task-columns.ts";
import {
  emptyLane,
  type AttemptPage,
  type AttemptQuery,
  type AttemptRecord,
  type AttemptRef,
  type ClaimedAttempt,
  type ClaimedAttempts,
  type LaneClaim,
  type ListedAttempt,
  type Store,
} from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import { laneOf, queuesOfAsked, readQueues } from "./lanes.ts";
import { type BatchSql, type Sql, firstSeqOf } from "./machine/sql.ts";
import { startColumns } from "./scan-starts.ts";
import { type SetSteps, each, inWaves } from "./steps.ts";
import { ENDED_HEAD_COLUMNS, TEXT_COLUMNS, hasEnded, isSuspended } from "./task-columns.ts";

const LIST_HELD = `SELECT seq FROM accounts WHERE seq = ANY($1::bigint[]) AND disabled_at IS NOT NULL`;

/**
 * The attempts due at $3 in each of the lanes, of each retry count as many as the lane may start of its class. A second
 * claim skips the rows that the first has locked, so no claim waits and no attempt is claimed twice. Attempts that are
 * not started stay locked until the batch has ended, and do not change.
 */
export const SELECT_DUE = `
  WITH RECURSIVE asked AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS a (account_seq, host, place)
    WHERE NOT ${isSuspended("a.account_seq")}
  ), ${queuesOfAsked("$6::int[], $7::int[], $8::bigint[]")}
  SELECT q.place - 1 AS place, o.seq, o.retry, CASE WHEN o.kind = 'postback' THEN (
      SELECT coalesce(octet_length(t.input_text), 0) + coalesce(octet_length(e.result_text), 0)
      FROM tasks AS t LEFT JOIN ends AS e ON e.task_seq = t.seq
      WHERE t.seq = o.task_seq
    ) ELSE 0 END AS bytes
  FROM queues AS q CROSS JOIN LATERAL (
    SELECT seq, task_seq, kind, retry, due_at FROM outbox
    WHERE started_at IS NULL AND account_seq = q.account_seq AND host = q.host AND retry = q.retry
      AND due_at BETWEEN q.due_at AND $3
    ORDER BY due_at
    LIMIT CASE WHEN q.retry = 0 THEN ($4::int[])[q.place::int] ELSE ($5::int[])[q.place::int] END
    FOR UPDATE SKIP LOCKED
  ) AS o
  WHERE q.due_at <= $3
  ORDER BY q.place, o.retry > 0, o.due_at, o.seq`;

const REF_COLUMNS = `
  o.seq, o.task_seq AS "taskSeq", o.account_seq AS "accountId", t.id AS "taskId", o.kind, o.number, o.retry, o.host,
  o.due_at AS "dueAt"`;

// A pingback sends nothing of the task's texts, and a large postback is made when its turn comes.
const IS_LARGE = `(o.kind = 'postback' AND ${ON_POSTGRES.textBytes} > ${READ_BYTES_MAX})`;

function ofSmallPostback(column: string, name: string): string {
  return `CASE WHEN o.kind = 'postback' AND NOT ${IS_LARGE} THEN ${column} END AS "${name}"`;
}

/**
 * Starts attempts, and reads everything that is needed to send them, except a large postback's texts. For `+ 0` see
 * "Rows by their numbers" in machine/sql.ts.
 */
const START_ATTEMPTS = `
  UPDATE outbox AS o SET started_at = $2, node_seq = $3
  FROM unnest($1::bigint[]) WITH ORDINALITY AS a (seq, place), deliveries AS d, accounts AS c, tasks AS t, ends AS e
  WHERE o.seq = ANY ($1::bigint[]) AND a.seq = o.seq + 0
    AND d.task_seq = o.task_seq + 0 AND o.kind IS NOT DISTINCT FROM d.kind AND c.seq = o.account_seq
    AND t.seq = o.task_seq + 0 AND e.task_seq = o.task_seq + 0
  RETURNING a.place, ${REF_COLUMNS}, o.started_at AS "sentAt", d.url, ${SECRET_COLUMNS}, ${ENDED_HEAD_COLUMNS},
    CASE WHEN ${IS_LARGE} THEN '{}' ELSE t.data_text END AS "dataText",
    ${ofSmallPostback("t.input_text", "inputText")}, ${ofSmallPostback("e.result_text", "resultText")},
    ${ofSmallPostback("e.error_text", "errorText")}, CASE WHEN ${IS_LARGE} THEN ${ON_POSTGRES.textBytes} END AS "largeBytes",
    t.trace_text AS "traceText"`;

// Each task is looked up by itself: joined, all tasks might be read for some attempts.
const LIST_IN_FLIGHT = `
  SELECT ${REF_COLUMNS}, o.started_at AS "startedAt"
  FROM outbox AS o CROSS JOIN LATERAL (SELECT id FROM tasks WHERE seq = o.task_seq LIMIT 1) AS t
  WHERE o.started_at IS NOT NULL AND (o.node_seq = $1 OR ${hasEnded("o.node_seq")})
  ORDER BY o.seq`;

const SELECT_LARGE_POSTBACK = `
  SELECT ${ENDED_HEAD_COLUMNS}, ${TEXT_COLUMNS}, d.url, t.trace_text AS "traceText", ${SECRET_COLUMNS}
  FROM tasks AS t
  JOIN ends AS e ON e.task_seq = t.seq
  JOIN deliveries AS d ON d.task_seq = t.seq AND d.kind = 'postback'
  JOIN accounts AS c ON c.seq = t.account_seq
  WHERE t.seq = $1 AND t.id = $2`;

/** The node that reads. */
export interface ReadingNode {
  /** The number of its life. */
  nodeSeq(): Promise<number>;
}

/** An attempt that is due. */
interface DueRow {
  /** Of its lane, in the order of the claim. */
  readonly place: number;
  readonly seq: number;
  readonly retry: number;
  readonly bytes: number;
}

export function attemptClaimWrites(sql: BatchSql, changes: BatchChanges) {
  return {
    // A node has one claim under way at a time.
    claimAttempts: each(async (claim) => {
      const claimed = await claimAttempts(sql, changes, claim);
      for (const { accountId } of claimed.attempts) changes.changed.add(accountId);
      return claimed;
    }),
  } satisfies SetSteps;
}

async function claimAttempts(
  sql: BatchSql,
  changes: BatchChanges,
  { lanes, now }: LaneClaim,
): Promise<ClaimedAttempts> {
  const look = changes.lookAtLanes(lanes, now);
  const accounts = [...new Set(lanes.map(({ accountId }) => accountId))];
  const [suspendedRows, due] = await Promise.all([
    sql.all<{ seq: number }>(LIST_HELD, [accounts]),
    sql.all<DueRow>(SELECT_DUE, [
      lanes.map(({ accountId }) => accountId),
      lanes.map(({ host }) => host),
      now,
      lanes.map(({ fresh }) => fresh),
      lanes.map(({ retries }) => retries),
      ...startColumns(look),
    ]),
  ]);
  const started = decideStarts(lanes, due);
  const [attempts, left] = await Promise.all([
    startAttempts(sql, started, now),
    readQueues(sql, lanes, look),
  ]);
  const suspended = new Set(suspendedRows.map(({ seq }) => seq));
  const queues = Map.groupBy(left, ({ place }) => place);
  const byPlace = Map.groupBy(due, ({ place }) => place);
  for (const place of lanes.keys()) {
    const met = (byPlace.get(place) ?? []).map(({ retry }) => ({ retry, dueAt: null }));
    look.learn(place, [...met, ...(queues.get(place) ?? [])]);
  }
  const after = lanes
    .map((lane, place) => laneOf(lane, queues.get(place) ?? []))
    .map((lane) => (suspended.has(lane.accountId) ? emptyLane(lane) : lane));
  return { attempts, lanes: after, suspended: [...suspended] };
}

/** Decides which of the attempts that are due are started: of each class of a lane up to its share, by their bytes. */
function decideStarts(lanes: LaneClaim["lanes"], due: readonly DueRow[]): readonly number[] {
  const attempts = new StartedAttempts();
  const byPlace = Map.groupBy(due, ({ place }) => place);
  for (const [place, { accountId, retries }] of lanes.entries()) {
    const ofLane = byPlace.get(place) ?? [];
    const classes = [
      ofLane.filter(({ retry }) => retry === 0),
      ofLane.filter(({ retry }) => retry > 0).slice(0, retries),
    ];
    // An attempt that does not fit any more keeps back those that became due after it.
    for (const ofClass of classes) ofClass.every((row) => attempts.start({ ...row, accountId }));
  }
  return attempts.started;
}

async function startAttempts(
  sql: BatchSql,
  seqs: readonly number[],
  now: number,
): Promise<readonly ClaimedAttempt[]> {
  if (seqs.length === 0) return [];
  const rows = await sql.all<StartedRow & { place: number }>(START_ATTEMPTS, [
    seqs,
    now,
    sql.nodeSeq,
  ]);
  return rows.toSorted((a, b) => a.place - b.place).map(toClaimedAttempt);
}

export function attemptClaimReads(sql: Sql, node: ReadingNode) {
  return {
    /**
     * Attempts that other nodes left also count as attempts of an earlier incarnation, which may have had another name.
     * They include this node's own attempts in flight; at its start it has none.
     */
    async listInFlight({ of }) {
      const own = of === "earlier life" ? await node.nodeSeq() : null;
      return await sql.all<AttemptRef>(LIST_IN_FLIGHT, [own]);
    },

    async makeLargePostback({ taskSeq, taskId, ...attempt }) {
      const row = await sql.get<PostbackRow<string>>(SELECT_LARGE_POSTBACK, [taskSeq, taskId]);
      return row === undefined ? null : postbackRequest(row, attempt);
    },
  } satisfies Partial<Store>;
}

/**
 * The end of attempts: a row of `outbox` goes, one of `attempts` comes, and with it the end of the delivery or its next
 * attempt. One statement for all ends of a step.
 *
 * An attempt ends while this node has it in flight. An attempt of an ended node can only be interrupted, by the first
 * node that does so. Later reports of its node are ignored. Rows are deleted before their successors are inserted,
 * because these are made of what the deletion answers: so there is one row of each delivery at all times. An attempt in
 * flight has a node. The statement does not use `started_at` for it, because that reads the whole index of attempts in
 * flight. For `+ 0` see "Rows by their numbers" in machine/sql.ts.
 */
const RECORD_ATTEMPTS = `
  WITH asked AS (
    SELECT * FROM unnest(
      $2::bigint[], $3::bigint[], $4::webhook_kind[], $5::bigint[], $6::attempt_outcome[], $7::int[], $8::text[],
      $9::text[], $10::float8[], $11::float8[], $12::float8[], $13::float8[], $14::text[], $15::text[], $16::text[],
      $17::delivery_end[], $18::bigint[], $19::bigint[], $20::int[]
    ) AS a (
      of_seq, of_task, of_kind, ended_at, outcome, http_status, error,
      address, dns_ms, connect_ms, tls_ms, first_byte_ms, response_excerpt, refusal_text, retry_after,
      delivery_end, next_seq, next_due_at, next_retry
    )
  ), gone AS (
    DELETE FROM outbox AS o USING asked AS a
    WHERE o.seq = ANY ($2::bigint[]) AND a.of_seq = o.seq + 0 AND a.of_task = o.task_seq + 0
      AND o.kind IS NOT DISTINCT FROM a.of_kind
      AND (o.node_seq = $1 OR o.node_seq IS NOT NULL AND a.outcome = 'interrupted' AND ${hasEnded("o.node_seq")})
    RETURNING o.*, a.*
  ), recorded AS (
    INSERT INTO attempts (
      seq, task_seq, kind, account_seq, number, retry, host, due_at, started_at, ended_at, outcome, http_status, error,
      address, dns_ms, connect_ms, tls_ms, first_byte_ms, response_excerpt, refusal_text, retry_after)
    SELECT
      seq, task_seq, kind, account_seq, number, retry, host, due_at, started_at, ended_at, outcome, http_status, error,
      address, dns_ms, connect_ms, tls_ms, first_byte_ms, response_excerpt, refusal_text, retry_after
    FROM gone
  ), ended AS (
    UPDATE deliveries AS d SET ended = g.delivery_end FROM gone AS g
    WHERE d.task_seq = g.task_seq AND d.kind = g.kind AND g.delivery_end IS NOT NULL
  ), scheduled AS (
    INSERT INTO outbox (seq, task_seq, kind, account_seq, number, retry, host, due_at)
    SELECT next_seq, task_seq, kind, account_seq, number + 1, next_retry, host, next_due_at
    FROM gone WHERE delivery_end IS NULL
  )
  SELECT seq FROM gone`;

export function attemptEndWrites(sql: BatchSql, changes: BatchChanges) {
  return {
    recordAttempt: (records) =>
      inWaves(
        records,
        ({ attempt }) => attempt.seq,
        (wave) => recordAttempts(sql, changes, wave),
      ),
  } satisfies SetSteps;
}

/** Records the ends of attempts, each named once; what is no longer in flight as it was keeps its record. */
async function recordAttempts(
  sql: BatchSql,
  changes: BatchChanges,
  given: readonly AttemptRecord[],
): Promise<readonly void[]> {
  // Every batch locks attempts in this order.
  const records = given.toSorted((a, b) => a.attempt.seq - b.attempt.seq);
  const rows = await sql.all<{ seq: number }>(RECORD_ATTEMPTS, [
    sql.nodeSeq,
    ...columnsOf(records, () => sql.nextSeq()),
  ]);
  const gone = new Set(rows.map(({ seq }) => seq));
  for (const record of records) {
    if (!gone.has(record.attempt.seq)) continue;
    const { error, responseExcerpt, retryAfter } = record.result;
    const texts = textBytes(error, responseExcerpt, refusalText(record), retryAfter);
    changes.changed.add(record.attempt.accountId);
    const { attempt, decision } = record;
    if (decision.state === "scheduled") {
      changes.memory.laneStarts.scheduled(attempt, decision.dueAt);
    }
    countAttempt(changes, record, ATTEMPT_OVERHEAD_BYTES + texts);
  }
  return records.map(() => {});
}

/** The parameters from $2 on. */
function columnsOf(records: readonly AttemptRecord[], nextSeq: () => number) {
  const attempts = records.map(({ attempt }) => attempt);
  const results = records.map(({ result }) => result);
  const next = records.map(({ decision }) => (decision.state === "scheduled" ? decision : null));
  return [
    attempts.map(({ seq }) => seq),
    attempts.map(({ taskSeq }) => taskSeq),
    attempts.map(({ kind }) => kind),
    records.map(({ endedAt }) => endedAt),
    results.map(({ outcome }) => outcome),
    results.map(({ httpStatus }) => httpStatus),
    results.map(({ error }) => error),
    results.map(({ address }) => address),
    results.map(({ phases }) => phases.dnsMs),
    results.map(({ phases }) => phases.connectMs),
    results.map(({ phases }) => phases.tlsMs),
    results.map(({ phases }) => phases.firstByteMs),
    results.map(({ responseExcerpt }) => responseExcerpt),
    records.map(refusalText),
    results.map(({ retryAfter }) => retryAfter),
    records.map(({ decision }) => (decision.state === "scheduled" ? null : decision.state)),
    next.map((each) => (each === null ? null : nextSeq())),
    next.map((each) => each?.dueAt ?? null),
    next.map((each) => each?.retry ?? null),
  ];
}

function refusalText({ result: { refusal } }: AttemptRecord): string | null {
  return refusal === null ? null : JSON.stringify(refusal);
}

// The most attempts of a page, of all accounts.
const EXAMINED_MAX = 5000;

// A node numbers its rows before it commits them, which takes it 5 s at most for each statement that may wait and for the
// COMMIT. By then every other one has committed what it numbered before, or never does.
const SETTLED_MS = 10_000;

/** The attempts of all accounts that follow a place: `outbox` holds those that have not ended. */
const FOLLOWING = ["attempts", "outbox"]
  .map(
    (table) => `
    (SELECT seq, task_seq, account_seq, kind, number, due_at, started_at FROM ${table}
      WHERE seq > $2 AND seq < $3 ORDER BY seq LIMIT ${EXAMINED_MAX})`,
  )
  .join(" UNION ALL ");

const COLUMNS = `
  e.seq, t.id AS "taskId", t.type, t.tag, e.kind, e.number, e.due_at AS "dueAt", e.started_at AS "startedAt"`;

/** One statement, because an attempt that ends moves from one table to the other. */
const LIST_ATTEMPTS = `
  WITH examined AS MATERIALIZED (
    SELECT * FROM (${FOLLOWING}) AS f ORDER BY seq LIMIT ${EXAMINED_MAX}
  ), own AS (
    SELECT ${COLUMNS}
    FROM examined AS e JOIN tasks AS t ON t.seq = e.task_seq
    WHERE e.account_seq = $1 ORDER BY e.seq LIMIT $4
  )
  SELECT x.examined, x.last, own.*
  FROM (SELECT count(*)::int AS examined, max(seq) AS last FROM examined) AS x LEFT JOIN own ON true
  ORDER BY own.seq`;

const LIST_SCHEDULED = `
  SELECT ${COLUMNS}
  FROM (
    SELECT * FROM outbox WHERE account_seq = $1 AND started_at IS NULL AND seq < $2
    LIMIT ${EXAMINED_MAX}
  ) AS e JOIN tasks AS t ON t.seq = e.task_seq
  ORDER BY e.due_at, e.seq
  LIMIT $3`;

/** A row that was read, and an attempt of the account; all columns are null without an attempt. */
type FollowingRow = {
  readonly [Name in keyof ListedAttempt]: ListedAttempt[Name] | null;
} & { readonly examined: number; readonly last: number | null };

export function attemptListReads(sql: Sql) {
  return {
    async listAttempts({ accountId, after, limit, now }: AttemptQuery): Promise<AttemptPage> {
      const before = firstSeqOf(now - SETTLED_MS);
      if (after === null) {
        const attempts = await sql.all<ListedAttempt>(LIST_SCHEDULED, [accountId, before, limit]);
        return { attempts, next: before - 1, hasMore: false };
      }
      const rows = await sql.all<FollowingRow>(LIST_ATTEMPTS, [accountId, after, before, limit]);
      const { examined = 0, last = null } = rows[0] ?? {};
      const attempts = rows.flatMap(({ examined: _examined, last: _last, ...row }) =>
        isAttempt(row) ? [row] : [],
      );
      if (attempts.length === limit) {
        return { attempts, next: attempts.at(-1)?.seq ?? after, hasMore: true };
      }
      const hasMore = examined === EXAMINED_MAX;
      const next = hasMore ? (last ?? after) : Math.max(after, before - 1);
      return { attempts, next, hasMore };
    },
  } satisfies Partial<Store>;
}

function isAttempt(row: Omit<FollowingRow, "examined" | "last">): row is ListedAttempt {
  return row.seq !== null;
}
