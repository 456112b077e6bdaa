import { StartedAttempts } from "../../domain/webhook/delivery.ts";
import { toClaimedAttempt, type StartedRow } from "../common/attempt-row.ts";
import { READ_BYTES_MAX } from "../common/byte-sizes.ts";
import { postbackRequest, type PostbackRow } from "../common/large-task.ts";
import type {
  AttemptRef,
  ClaimedAttempt,
  ClaimedAttempts,
  Lane,
  LaneClaim,
  Store,
} from "../store.ts";
import { SECRET_COLUMNS } from "./accounts.ts";
import type { BatchChanges } from "./batch-changes.ts";
import { hasEnded } from "./ended-nodes.ts";
import { isHeld } from "./held-accounts.ts";
import { floorColumns, type LeftOfRetry } from "./lane-floors.ts";
import { laneOf, queuesOfAsked, readQueues } from "./lanes.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { each, type SetSteps } from "./steps.ts";
import { ENDED_HEAD_COLUMNS, TASK_TEXT_BYTES, TEXT_COLUMNS } from "./task-columns.ts";

const LIST_HELD = `SELECT seq FROM accounts WHERE seq = ANY($1::bigint[]) AND disabled_at IS NOT NULL`;

/**
 * The attempts due at $3 in each of the lanes, of each retry count as many as the lane may start of its class. Who
 * comes second passes over what the first has locked, so nobody waits and nobody gets the same attempt. What is not
 * started is locked until the batch has ended, and stays as it was.
 */
export const SELECT_DUE = `
  WITH RECURSIVE asked AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS a (account_seq, host, place)
    WHERE NOT ${isHeld("a.account_seq")}
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
const IS_LARGE = `(o.kind = 'postback' AND ${TASK_TEXT_BYTES} > ${READ_BYTES_MAX})`;

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
    ${ofSmallPostback("e.error_text", "errorText")}, CASE WHEN ${IS_LARGE} THEN ${TASK_TEXT_BYTES} END AS "largeBytes",
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
  const [heldRows, due] = await Promise.all([
    sql.all<{ seq: number }>(LIST_HELD, [accounts]),
    sql.all<DueRow>(SELECT_DUE, [
      lanes.map(({ accountId }) => accountId),
      lanes.map(({ host }) => host),
      now,
      lanes.map(({ fresh }) => fresh),
      lanes.map(({ retries }) => retries),
      ...floorColumns(look),
    ]),
  ]);
  const started = decideStarts(lanes, due);
  const [attempts, left] = await Promise.all([
    startAttempts(sql, started, now),
    readQueues(sql, lanes, look),
  ]);
  const held = new Set(heldRows.map(({ seq }) => seq));
  const queues = Map.groupBy(left, ({ place }) => place);
  const byPlace = Map.groupBy(due, ({ place }) => place);
  for (const place of lanes.keys()) {
    const met = (byPlace.get(place) ?? []).map(({ retry }): LeftOfRetry => ({
      retry,
      dueAt: null,
    }));
    look.learn(place, [...met, ...(queues.get(place) ?? [])]);
  }
  const after = lanes.map((lane, place) => laneOf(lane, queues.get(place) ?? []));
  return { attempts, lanes: after.map((lane) => unlessHeld(lane, held)), held: [...held] };
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

function unlessHeld(lane: Lane, held: ReadonlySet<number>): Lane {
  return held.has(lane.accountId) ? { ...lane, freshDueAt: null, retryDueAt: null } : lane;
}

export function attemptClaimReads(sql: Sql, node: ReadingNode) {
  return {
    /**
     * Attempts that other nodes left are also found as those of an earlier life: that may have had another name. What
     * this node itself has in flight is among them too; at its start it has nothing.
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
