import { MINUTE_MS } from "../../domain/clock/duration.ts";
import {
  type QueuedTimes,
  earlier,
  isMarkDue,
  oldestSince,
  waitedMs,
  waitsSince,
} from "../../domain/stats/time-series.ts";
import type { ExpiredTask, LaneRef, QueuePlace } from "../store.ts";
import { ALL_ACCOUNTS, type BatchChanges } from "./counts.ts";
import { isHeld } from "./held-accounts.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";
import { type Run, runEnds } from "./task-runs.ts";

export const NEWEST_MARK = `SELECT seq, served_ms AS servedMs FROM queue_marks ORDER BY seq DESC LIMIT 1`;

export const SERVE_MARK = `UPDATE queue_marks SET served_ms = served_ms + @servedMs WHERE seq = @seq`;

export const INSERT_MARK = `
  INSERT INTO queue_marks (task_seq) SELECT coalesce(max(seq), 0) FROM tasks`;

/** There are about a hundred marks at most. */
const OLD_MARK = `
  SELECT seq FROM (
    SELECT seq, sum(served_ms) OVER (ORDER BY seq DESC) AS served_ms FROM queue_marks
  )
  WHERE served_ms >= ?
  ORDER BY seq DESC
  LIMIT 1`;

const FORGET_MARKS = `DELETE FROM queue_marks WHERE seq < ?`;

/**
 * Within type, account and priority, tasks are in the order in which they were posted: the walk reads no younger one.
 * The waiting tasks of a disabled account end no sooner than they could be started again.
 */
export const OLD_TASKS = `
  SELECT seq, id, account_seq AS accountSeq, type, queued_mark AS queuedMark
  FROM tasks INDEXED BY tasks_queued
  WHERE state = 'queued' AND type = @type AND account_seq = @accountId AND priority = @priority
    AND seq > @seq AND seq <= (SELECT task_seq FROM queue_marks WHERE seq = @mark)
    AND NOT ${isHeld("@accountId")}
  ORDER BY seq
  LIMIT @max`;

const GROUP = `
  SELECT type, account_seq AS accountId, priority, 0 AS seq FROM tasks INDEXED BY tasks_queued WHERE state = 'queued'`;

// One seek each. The first that finds something leads on.
export const NEXT_PRIORITY = `${GROUP}
  AND type = @type AND account_seq = @accountId AND priority < @priority
  ORDER BY priority DESC LIMIT 1`;

export const NEXT_ACCOUNT = `${GROUP}
  AND type = @type AND account_seq > @accountId
  ORDER BY account_seq, priority DESC LIMIT 1`;

export const NEXT_TYPE = `${GROUP}
  AND type > @type
  ORDER BY type, account_seq, priority DESC LIMIT 1`;

// Every other write waits for a step. Measured: a step that looks at so many and ends none takes 0.4 ms, one that ends
// 100 takes 7 ms, and 100,000 younger tasks cost 7 ms in all.
const EXAMINED_MAX = 1000;

const BEGINNING: QueuePlace = { type: "", accountId: 0, priority: 0, seq: 0 };

interface WaitingRow extends Run, ExpiredTask {
  readonly queuedMark: number | null;
}

export function queueExpiryWrites(connection: Connection, changes: BatchChanges) {
  return { ...markWrites(connection), ...expiryWrites(connection, changes) };
}

function markWrites(connection: Connection) {
  const newest = connection.prepare<[], { seq: number; servedMs: number }>(NEWEST_MARK);
  const serve = connection.prepare(SERVE_MARK);
  const insert = connection.prepare(INSERT_MARK);
  const findOld = connection.prepare<[number], number>(OLD_MARK).pluck();
  const forget = connection.prepare<[number]>(FORGET_MARKS);

  return {
    markQueue({ servedMs, everyMs, queueMs }) {
      const mark = newest.get();
      if (mark !== undefined && servedMs > 0) serve.run({ seq: mark.seq, servedMs });
      if (isMarkDue(mark, { servedMs, everyMs })) insert.run();
      const old = findOld.get(queueMs) ?? null;
      if (old !== null) forget.run(old);
      return old;
    },
  } satisfies Steps;
}

function expiryWrites(connection: Connection, changes: BatchChanges) {
  const oldTasks = connection.prepare<[object], WaitingRow>(OLD_TASKS);
  const nextGroups = [NEXT_PRIORITY, NEXT_ACCOUNT, NEXT_TYPE].map((sql) =>
    connection.prepare<[QueuePlace], QueuePlace>(sql),
  );
  const { finish } = runEnds(connection, changes);

  function nextGroup(place: QueuePlace): QueuePlace | null {
    for (const statement of nextGroups) {
      const next = statement.get(place);
      if (next !== undefined) return next;
    }
    return null;
  }

  return {
    expireQueued({ mark, after, max, end }) {
      const tasks: ExpiredTask[] = [];
      const lanes: LaneRef[] = [];
      let place: QueuePlace | null = after ?? BEGINNING;
      let examined = 0;
      while (place !== null && tasks.length < max && examined < EXAMINED_MAX) {
        const share = max - tasks.length;
        const rows = oldTasks.all({ ...place, mark, max: share });
        for (const { id, type, queuedMark, ...run } of rows) {
          if (!waitsSince(mark, queuedMark)) continue;
          lanes.push(...finish(run, end, "queued"));
          tasks.push({ id, type });
        }
        examined += rows.length + 1;
        const last = rows.at(-1);
        place =
          last === undefined || rows.length < share
            ? nextGroup(place)
            : { ...place, seq: last.seq };
      }
      return { tasks, lanes, next: place };
    },
  } satisfies Steps;
}

// Some rows for each account that ever posted. Tasks that are to start later are counted apart. With very many
// accounts, those with the most waiting tasks are sampled.
export const WAITING_MOST = `
  SELECT account_seq AS accountSeq, count AS queued, ${isHeld("account_seq")} AS isHeld FROM task_counts
  WHERE state = 'queued' AND count > 0
  ORDER BY count DESC
  LIMIT 1000`;

export const SUM_WAITING = `SELECT coalesce(sum(count), 0) FROM task_counts WHERE state = 'queued'`;

export const LONGEST_QUEUED = `
  SELECT created_at AS createdAt, start_at AS startAt FROM tasks INDEXED BY tasks_by_state
  WHERE account_seq = ? AND state = 'queued'
  ORDER BY created_at`;

export const RAISE_QUEUED = `
  INSERT INTO traffic (account_seq, step_ms, at, queued, oldest_ms)
  VALUES (@accountSeq, ${MINUTE_MS}, @at, @queued, @oldestMs)
  ON CONFLICT (account_seq, step_ms, at) DO UPDATE
  SET queued = max(queued, excluded.queued), oldest_ms = max(oldest_ms, excluded.oldest_ms)`;

interface WaitingRow {
  readonly accountSeq: number;
  readonly queued: number;
  readonly isHeld: 0 | 1;
}

export function queueSampleWrites(connection: Connection) {
  const reads = waitingReader(connection);
  const raise = connection.prepare<[object]>(RAISE_QUEUED);

  return {
    sampleQueues({ now }) {
      const at = now - (now % MINUTE_MS);
      let oldest: number | null = null;
      for (const { accountSeq, queued, isHeld: isAccountHeld } of reads.waitingMost()) {
        const since = reads.oldestOf(accountSeq);
        // Only the operator makes a held task wait.
        if (isAccountHeld === 0) oldest = earlier(oldest, since);
        raise.run({ accountSeq, at, queued, oldestMs: waitedMs(since, now) });
      }
      const queued = reads.sum();
      // Also of an empty queue: this row shows that a daemon ran.
      raise.run({ accountSeq: ALL_ACCOUNTS, at, queued, oldestMs: waitedMs(oldest, now) });
    },
  } satisfies Steps;
}

export function accountWaitingReads(connection: Connection) {
  return { findAccountOldestWaiting: waitingReader(connection).oldestOf };
}

export function allWaitingReads(connection: Connection) {
  const { waitingMost, oldestOf } = waitingReader(connection);

  return {
    findAnyOldestWaiting(_scope: null): number | null {
      const accounts = waitingMost().filter(({ isHeld: isAccountHeld }) => isAccountHeld === 0);
      return accounts.map(({ accountSeq }) => oldestOf(accountSeq)).reduce(earlier, null);
    },
  };
}

function waitingReader(connection: Connection) {
  const waitingMost = connection.prepare<[], WaitingRow>(WAITING_MOST);
  const sum = connection.prepare<[], number>(SUM_WAITING).pluck();
  const longestQueued = connection.prepare<[number], QueuedTimes>(LONGEST_QUEUED);

  return {
    waitingMost: () => waitingMost.all(),
    sum: () => sum.get() ?? 0,

    /** When the longest-waiting task that may run was queued; null when none waits. */
    oldestOf: (accountSeq: number) => oldestSince(longestQueued.iterate(accountSeq)),
  };
}
