import { countFinished } from "../../domain/stats/work-counts.ts";
import { STATE_CODES, type StoredState, isFinished } from "../../domain/task/task.ts";
import { FIRST_ATTEMPT } from "../../domain/webhook/delivery.ts";
import { textBytes } from "../common/large-task.ts";
import type { LaneRef, RunEnd, RunRef, TypeWorkQuery } from "../store.ts";
import type { BatchChanges } from "./counts.ts";
import type { Connection } from "./machine/connection.ts";
import { INSERT_RESULT } from "./posts.ts";
import type { Steps } from "./steps.ts";
import { isSuspended, nextEnabled } from "./suspended-accounts.ts";
import { taskClaims } from "./task-claims.ts";

// Statements that run once for each task read first and write then: RETURNING keeps its rows in a table of its own,
// which SQLite makes and drops at each run of the statement (measured: 3 of the 10 µs of FINISH_TASK). They take values
// by position, as in tasks.ts.
export const FIND_RUNNING = `
  SELECT seq, account_seq AS accountId FROM tasks
  WHERE seq = ? AND state = 'running' AND id = coalesce(?, id) AND runs = coalesce(?, runs)`;

export const FINISH_TASK = `
  UPDATE tasks
  SET state = ?, status_code = ?, completed_at = ?, expires_at = ?, erase_at = ?, ready = 1
  WHERE seq = ?`;

export const TASK_DELIVERIES = `SELECT kind, host FROM deliveries WHERE task_seq = ?`;

const INSERT_FIRST_ATTEMPT = `
  INSERT INTO attempts (account_seq, task_seq, kind, number, retry, host, due_at)
  VALUES (?, ?, ?, ${FIRST_ATTEMPT.number}, ${FIRST_ATTEMPT.retry}, ?, ?)`;

export const RETRY_TASK = `
  UPDATE tasks
  SET state = 'delayed', status_code = ${STATE_CODES.delayed}, started_at = NULL, start_at = @startAt,
      failures = failures + 1
  WHERE seq = @seq`;

// A task that comes into the queue later than it was posted begins to wait then.
const MARK = `queued_checkpoint = (SELECT max(seq) FROM queue_checkpoints)`;

export const REQUEUE_TASK = `
  UPDATE tasks
  SET state = 'queued', status_code = ${STATE_CODES.queued}, started_at = NULL,
      runs = runs - @uncounted, ${MARK}
  WHERE seq = @seq`;

// The run of a worker outlives the daemon.
export const REQUEUE_ALL = `
  UPDATE tasks
  SET state = 'queued', status_code = ${STATE_CODES.queued}, started_at = NULL, ${MARK}
  WHERE state = 'running'
    AND NOT EXISTS (SELECT 1 FROM leases WHERE task_seq = tasks.seq AND ending IS NULL)
  RETURNING account_seq`;

export const RELEASE_DELAYED = `
  UPDATE tasks SET state = 'queued', ${MARK}
  WHERE seq IN (
    SELECT seq FROM tasks WHERE state = 'delayed' AND start_at <= @now ORDER BY start_at LIMIT @max
  )
  RETURNING account_seq`;

/**
 * A loose index scan: of each enabled account that waits, the first task of each priority, with a seek or two for each,
 * and one for each run of disabled accounts. Beyond the first 1,000 accounts (1 ms, measured) it is an estimate, which
 * is good enough: accounts take turns, so the head of one account's queue has not waited much longer than the head of
 * another's.
 */
export const OLDEST_QUEUED = `
  WITH RECURSIVE heads (seq, account_seq, priority, since) AS (
    SELECT seq, account_seq, priority, max(created_at, coalesce(start_at, 0))
    FROM tasks
    WHERE seq = (
      SELECT seq FROM tasks INDEXED BY tasks_queued
      WHERE state = 'queued' AND type = @type
      ORDER BY account_seq, priority DESC, seq
      LIMIT 1
    )
    UNION ALL
    SELECT t.seq, t.account_seq, t.priority, max(t.created_at, coalesce(t.start_at, 0))
    FROM heads CROSS JOIN tasks AS t
    WHERE t.seq = coalesce(
      (
        SELECT seq FROM tasks INDEXED BY tasks_queued
        WHERE state = 'queued' AND type = @type
          AND account_seq = heads.account_seq AND priority < heads.priority
          AND NOT ${isSuspended("heads.account_seq")}
        ORDER BY priority DESC, seq
        LIMIT 1
      ),
      (
        SELECT seq FROM tasks INDEXED BY tasks_queued
        WHERE state = 'queued' AND type = @type AND account_seq > iif(
          ${isSuspended("heads.account_seq")}, ${nextEnabled("heads.account_seq")} - 1, heads.account_seq
        )
        ORDER BY account_seq, priority DESC, seq
        LIMIT 1
      )
    )
    LIMIT 1000
  )
  SELECT min(since) FROM heads WHERE NOT ${isSuspended("heads.account_seq")}`;

// A loose index scan: one seek for each type, however many tasks wait.
export const QUEUED_TYPES = `
  WITH RECURSIVE types (type) AS (
    SELECT min(type) FROM tasks WHERE state = 'queued'
    UNION ALL
    SELECT (SELECT min(type) FROM tasks WHERE state = 'queued' AND type > types.type)
    FROM types WHERE types.type IS NOT NULL
  )
  SELECT type FROM types WHERE type IS NOT NULL`;

// The index has no type in it, so this read is bounded: the tasks that start next are sufficient.
export const DELAYED_TYPES = `
  SELECT type FROM tasks WHERE state = 'delayed' ORDER BY start_at LIMIT 1000`;

export const FIND_TASK_STATE = `SELECT state FROM tasks WHERE id = @id`;

/** Counts no further than necessary. */
export const COUNT_QUEUED = `
  SELECT count(*) FROM (
    SELECT 1 FROM tasks INDEXED BY tasks_queued WHERE state = 'queued' AND type = @type LIMIT @max
  )`;

/** There are few: the concurrency of a type bounds its runs. */
export const COUNT_RUNNING = `
  SELECT type, count(*) AS running FROM tasks INDEXED BY tasks_running
  WHERE state = 'running'
  GROUP BY type`;

export function taskRunWrites(connection: Connection, changes: BatchChanges) {
  const claimInTurn = taskClaims(connection, changes);
  const findRunning = connection.prepare<[number, string | null, number | null], Run>(FIND_RUNNING);
  const { finish, retry, requeue } = runEnds(connection, changes);
  const requeueAll = connection.prepare<[], number>(REQUEUE_ALL).pluck();
  const release = connection.prepare<[object], number>(RELEASE_DELAYED).pluck();

  const find = ({ seq, id, run }: RunRef): Run | undefined =>
    findRunning.get(seq, id ?? null, run ?? null);

  function requeueOne(which: RunRef): number {
    const run = find(which);
    if (run === undefined) return 0;
    requeue(run, { isRunCounted: true });
    return 1;
  }

  return {
    claimTasks: (claim) => claimInTurn(claim),

    finishTask(end) {
      const run = find(end);
      return run === undefined ? null : finish(run, end);
    },

    retryTask(order) {
      const run = find(order);
      if (run !== undefined) retry(run, order.startAt);
    },

    requeueTasks(which) {
      if (!("of" in which)) return requeueOne(which);
      if (which.of === "ended nodes") return 0;
      const accountIds = requeueAll.all();
      for (const accountId of accountIds) changes.counts.move(accountId, "running", "queued");
      return accountIds.length;
    },

    releaseTask(which) {
      const run = find(which);
      if (run !== undefined) requeue(run, { isRunCounted: false });
    },

    releaseDelayed(due) {
      const accountIds = release.all(due);
      for (const accountId of accountIds) changes.counts.move(accountId, "delayed", "queued");
      return accountIds.length;
    },
  } satisfies Steps;
}

/** A task that is running. */
export interface Run {
  readonly seq: number;
  readonly accountId: number;
}

/** The three ways in which a run ends, for the daemon's runners and for workers. */
export function runEnds(connection: Connection, changes: BatchChanges) {
  const finish = connection.prepare(FINISH_TASK);
  const insertResult = connection.prepare(INSERT_RESULT);
  const taskDeliveries = connection.prepare<[number], { kind: string; host: string }>(
    TASK_DELIVERIES,
  );
  const insertAttempt = connection.prepare(INSERT_FIRST_ATTEMPT);
  const retry = connection.prepare(RETRY_TASK);
  const requeue = connection.prepare(REQUEUE_TASK);

  function startDeliveries({ seq, accountId }: Run, dueAt: number): readonly LaneRef[] {
    const deliveries = taskDeliveries.all(seq);
    for (const { kind, host } of deliveries) insertAttempt.run(accountId, seq, kind, host, dueAt);
    return deliveries.map(({ host }) => ({ accountId, host }));
  }

  return {
    /** Returns the lanes that now have an attempt due. `from` is the state that the task is in. */
    finish(run: Run, end: RunEnd, from: "running" | "queued" = "running"): readonly LaneRef[] {
      const { seq, accountId } = run;
      const { state, code, resultText, errorText, endedAt, expiresAt, eraseAt } = end;
      finish.run(state, code, endedAt, expiresAt, eraseAt, seq);
      insertResult.run(seq, resultText, errorText);
      const bytes = textBytes(resultText, errorText);
      countFinished(changes, { accountId, from, state, endedAt, bytes });
      return startDeliveries(run, endedAt);
    },

    retry({ seq, accountId }: Run, startAt: number): void {
      retry.run({ seq, startAt });
      changes.counts.move(accountId, "running", "delayed");
    },

    requeue({ seq, accountId }: Run, { isRunCounted }: { readonly isRunCounted: boolean }): void {
      requeue.run({ seq, uncounted: isRunCounted ? 0 : 1 });
      changes.counts.move(accountId, "running", "queued");
    },
  };
}

export function taskQueueReads(connection: Connection) {
  const oldestQueued = connection.prepare<[object], number | null>(OLDEST_QUEUED).pluck();
  const queuedTypes = connection.prepare<[], string>(QUEUED_TYPES).pluck();
  const delayedTypes = connection.prepare<[], string>(DELAYED_TYPES).pluck();

  return {
    findOldestQueued(types) {
      const oldest = Math.min(...types.map((type) => oldestQueued.get({ type }) ?? Infinity));
      return oldest === Infinity ? null : oldest;
    },

    listQueuedTypes: () => [...new Set([...queuedTypes.all(), ...delayedTypes.all()])],

    findWaitingTypes: (types) =>
      types.filter((type) => (oldestQueued.get({ type }) ?? null) !== null),
  } satisfies Steps;
}

export function endedTaskReads(connection: Connection) {
  const findState = connection.prepare<[object], StoredState>(FIND_TASK_STATE).pluck();

  return {
    findEndedTasks: ({ ids }) =>
      ids.filter((id) => {
        const state = findState.get({ id });
        return state === undefined || isFinished(state);
      }),
  } satisfies Steps;
}

export function typeWorkReads(connection: Connection) {
  const countQueued = connection.prepare<[object], number>(COUNT_QUEUED).pluck();
  const countRunning = connection.prepare<[], [string, number]>(COUNT_RUNNING).raw();
  const oldestQueued = connection.prepare<[object], number | null>(OLDEST_QUEUED).pluck();

  return {
    // One snapshot: a task that starts between two reads would be counted twice, or not at all.
    listTypeWork: connection.transaction(({ types, waitingMax }: TypeWorkQuery) => {
      const running = new Map(countRunning.all());
      return types.map((type) => {
        const counted = countQueued.get({ type, max: waitingMax + 1 }) ?? 0;
        return {
          type,
          running: running.get(type) ?? 0,
          waiting: Math.min(counted, waitingMax),
          isMoreWaiting: counted > waitingMax,
          oldestAt: counted === 0 ? null : (oldestQueued.get({ type }) ?? null),
        };
      });
    }),
  } satisfies Steps;
}
