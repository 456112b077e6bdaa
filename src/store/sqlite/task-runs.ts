import type { ClaimedTask, TaskFinish } from "../store.ts";
import type { Connection } from "./connection.ts";
import type { CountChanges } from "./task-counts.ts";
import { INSERT_RESULT } from "./tasks.ts";

export const CLAIM_TASKS = `
  UPDATE tasks
  SET state = 'running', status_code = 40601, started_at = @now, runs = runs + 1
  WHERE seq IN (
    SELECT seq FROM tasks
    WHERE state = 'queued' AND type = @type
    ORDER BY priority DESC, seq
    LIMIT @max
  )
  RETURNING seq, account_seq, id, type, tag, marketplace, priority, failures,
    (SELECT input_text FROM task_inputs WHERE task_seq = tasks.seq) AS input_text`;

export const FINISH_TASK = `
  UPDATE tasks
  SET state = @state, status_code = @code, completed_at = @endedAt, expires_at = @expiresAt, ready = 1
  WHERE seq = @seq AND state = 'running'
  RETURNING account_seq`;

export const OPEN_DELIVERIES = `
  UPDATE deliveries SET state = 'open' WHERE task_seq = ? AND state = 'waiting'
  RETURNING kind, host`;

const INSERT_FIRST_ATTEMPT = `
  INSERT INTO attempts (task_seq, kind, number, retry, host, due_at) VALUES (?, ?, 1, 0, ?, ?)`;

export const RETRY_TASK = `
  UPDATE tasks
  SET state = 'delayed', status_code = 40602, started_at = NULL, start_at = @startAt,
      failures = failures + 1
  WHERE seq = @seq AND state = 'running'
  RETURNING account_seq`;

export const REQUEUE_TASK = `
  UPDATE tasks SET state = 'queued', status_code = 40602, started_at = NULL
  WHERE seq = ? AND state = 'running'
  RETURNING account_seq`;

export const REQUEUE_ALL = `
  UPDATE tasks SET state = 'queued', status_code = 40602, started_at = NULL
  WHERE state = 'running'
  RETURNING account_seq`;

export const RELEASE_DELAYED = `
  UPDATE tasks SET state = 'queued'
  WHERE seq IN (
    SELECT seq FROM tasks WHERE state = 'delayed' AND start_at <= @now ORDER BY start_at LIMIT @max
  )`;

// The first of each priority by seq: a seek for each, however many tasks wait behind it.
export const OLDEST_QUEUED = `
  SELECT min((
    SELECT max(created_at, coalesce(start_at, 0)) FROM tasks
    WHERE state = 'queued' AND type = ? AND priority = priorities.priority
    ORDER BY seq
    LIMIT 1
  ))
  FROM (
    SELECT column1 AS priority
    FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))
  ) AS priorities`;

// A loose index scan: one seek for each type, however many tasks wait.
export const QUEUED_TYPES = `
  WITH RECURSIVE types (type) AS (
    SELECT min(type) FROM tasks WHERE state = 'queued'
    UNION ALL
    SELECT (SELECT min(type) FROM tasks WHERE state = 'queued' AND type > types.type)
    FROM types WHERE types.type IS NOT NULL
  )
  SELECT type FROM types WHERE type IS NOT NULL`;

// The index has no type in it, so this is bounded: the tasks that start next say enough.
export const DELAYED_TYPES = `
  SELECT type FROM tasks WHERE state = 'delayed' ORDER BY start_at LIMIT 1000`;

interface ClaimedRow {
  seq: number;
  account_seq: number;
  id: string;
  type: string;
  tag: string | null;
  marketplace: string | null;
  priority: number;
  failures: number;
  input_text: string | null;
}

/** The writes on tasks that run. Each runs inside the transaction of its batch. */
export function taskRunWrites(connection: Connection, counts: CountChanges) {
  return {
    ...claimWrites(connection, counts),
    ...finishWrites(connection, counts),
    ...requeueWrites(connection, counts),
  };
}

function claimWrites(connection: Connection, counts: CountChanges) {
  const claim = connection.prepare<[object], ClaimedRow>(CLAIM_TASKS);
  const release = connection.prepare(RELEASE_DELAYED);

  return {
    claimTasks(order: { type: string; max: number; now: number }): readonly ClaimedTask[] {
      // RETURNING promises no order.
      const rows = claim.all(order).sort((a, b) => b.priority - a.priority || a.seq - b.seq);
      for (const row of rows) counts.move(row.account_seq, "queued", "running");
      return rows.map(toClaimedTask);
    },

    // A delayed task is shown and counted as queued already.
    releaseDelayed(due: { now: number; max: number }): number {
      return release.run(due).changes;
    },
  };
}

function finishWrites(connection: Connection, counts: CountChanges) {
  const finish = connection.prepare<[object], number>(FINISH_TASK).pluck();
  const insertResult = connection.prepare(INSERT_RESULT);
  const openDeliveries = connection.prepare<[number], { kind: string; host: string }>(
    OPEN_DELIVERIES,
  );
  const insertAttempt = connection.prepare(INSERT_FIRST_ATTEMPT);

  return {
    finishTask(end: TaskFinish): readonly string[] {
      const { seq, resultText, errorText, endedAt } = end;
      const accountSeq = finish.get(end);
      if (accountSeq === undefined) return [];
      counts.move(accountSeq, "running", end.state);
      insertResult.run(seq, resultText, errorText);
      const opened = openDeliveries.all(seq);
      for (const { kind, host } of opened) insertAttempt.run(seq, kind, host, endedAt);
      return opened.map(({ host }) => host);
    },
  };
}

function requeueWrites(connection: Connection, counts: CountChanges) {
  const retry = connection.prepare<[object], number>(RETRY_TASK).pluck();
  const requeueTask = connection.prepare<[number], number>(REQUEUE_TASK).pluck();
  const requeueAll = connection.prepare<[], number>(REQUEUE_ALL).pluck();

  return {
    retryTask(order: { seq: number; startAt: number }): void {
      const accountSeq = retry.get(order);
      if (accountSeq !== undefined) counts.move(accountSeq, "running", "queued");
    },

    requeueTasks({ seq }: { seq: number | "all" }): number {
      const accountSeqs = seq === "all" ? requeueAll.all() : requeueTask.all(seq);
      for (const accountSeq of accountSeqs) counts.move(accountSeq, "running", "queued");
      return accountSeqs.length;
    },
  };
}

/** The reads on what waits to run. */
export function taskQueueReads(connection: Connection) {
  const oldestQueued = connection.prepare<[string], number | null>(OLDEST_QUEUED).pluck();
  const queuedTypes = connection.prepare<[], string>(QUEUED_TYPES).pluck();
  const delayedTypes = connection.prepare<[], string>(DELAYED_TYPES).pluck();

  return {
    findOldestQueued(types: readonly string[]): number | null {
      const oldest = Math.min(...types.map((type) => oldestQueued.get(type) ?? Infinity));
      return oldest === Infinity ? null : oldest;
    },

    listQueuedTypes(): readonly string[] {
      return [...new Set([...queuedTypes.all(), ...delayedTypes.all()])];
    },
  };
}

function toClaimedTask(row: ClaimedRow): ClaimedTask {
  const { seq, id, type, tag, marketplace, failures } = row;
  return { seq, id, type, tag, marketplace, failures, inputText: row.input_text };
}
