import { ANSWER_OVERHEAD_BYTES, TASK_OVERHEAD_BYTES } from "../../src/store/common/large-task.ts";
import { ON_SQLITE } from "../../src/store/sql/task-columns.ts";
import { ATTEMPTS_BYTES } from "../../src/store/sql/task-erasure.ts";
import { DatabaseView } from "../kit/database.ts";
import type { Ledger } from "./ledger.ts";

export type Promises = Pick<Ledger, "tasks" | "promised" | "cancelled"> &
  Pick<Ledger, "finished" | "collected" | "delivered">;

// One statement each, and so of one moment, while a daemon writes. Totals of the past cannot be counted again.
const WRONG_COUNTS = `
  SELECT count(*) FROM (
    SELECT 1 FROM (
      SELECT account_seq, state, count FROM task_counts WHERE state NOT LIKE 'ever!_%' ESCAPE '!'
      UNION ALL
      SELECT account_seq, state, -1 FROM tasks
      UNION ALL
      SELECT account_seq, 'ready', -1 FROM tasks WHERE ready = 1
      UNION ALL
      SELECT t.account_seq, 'retrying', -1
      FROM attempts AS a JOIN tasks AS t ON t.seq = a.task_seq
      WHERE a.ended_at IS NULL AND a.retry > 0
      UNION ALL
      SELECT t.account_seq, 'undelivered', -1
      FROM deliveries AS d JOIN tasks AS t ON t.seq = d.task_seq
      WHERE d.ended IN ('given_up', 'refused')
      UNION ALL
      SELECT t.account_seq, 'bytes', -(${TASK_OVERHEAD_BYTES} + ${ON_SQLITE.textBytes} + ${ATTEMPTS_BYTES})
      FROM tasks AS t
      LEFT JOIN task_inputs AS i ON i.task_seq = t.seq
      LEFT JOIN task_results AS r ON r.task_seq = t.seq
      UNION ALL
      SELECT account_seq, 'bytes', -(${ANSWER_OVERHEAD_BYTES} + octet_length(response_text))
      FROM idempotency_keys
    )
    GROUP BY account_seq, state
    HAVING sum(count) <> 0
  )`;

const WRONG_HOSTS = `
  SELECT count(*) FROM (
    SELECT 1 FROM (
      SELECT account_seq, host, given_up, refused, retrying FROM host_counts
      UNION ALL
      SELECT t.account_seq, d.host, -(d.ended = 'given_up'), -(d.ended = 'refused'), 0
      FROM deliveries AS d JOIN tasks AS t ON t.seq = d.task_seq
      WHERE d.ended IN ('given_up', 'refused')
      UNION ALL
      SELECT t.account_seq, a.host, 0, 0, -1
      FROM attempts AS a JOIN tasks AS t ON t.seq = a.task_seq
      WHERE a.ended_at IS NULL AND a.retry > 0
    )
    GROUP BY account_seq, host
    HAVING sum(given_up) <> 0 OR sum(refused) <> 0 OR sum(retrying) <> 0
  )`;

// Before anything is erased. Of each account, and of all together.
const WRONG_TRAFFIC = `
  WITH log (account_seq, posted, completed, failed, cancelled, firsts, delivered, timed, sent) AS (
    SELECT account_seq, 1, state = 'completed', state = 'failed', state = 'cancelled', 0, 0, 0, 0
    FROM tasks
    UNION ALL
    SELECT t.account_seq, 0, 0, 0, 0, a.retry = 0, a.outcome = 'delivered', 1, 1
    FROM attempts AS a JOIN tasks AS t ON t.seq = a.task_seq
    WHERE a.ended_at IS NOT NULL AND a.outcome <> 'interrupted'
  ),
  wanted AS (
    SELECT * FROM log
    UNION ALL
    SELECT 0, posted, completed, failed, cancelled, firsts, delivered, timed, sent FROM log
  ),
  counted AS (
    SELECT account_seq, -posted, -completed, -failed, -cancelled, -first_attempts, -delivered,
      -(SELECT coalesce(sum(value), 0) FROM json_each(durations_text)), 0
    FROM traffic
    UNION ALL
    SELECT account_seq, 0, 0, 0, 0, 0, 0, 0, -attempts FROM host_traffic
  )
  SELECT count(*) FROM (
    SELECT 1 FROM (SELECT * FROM wanted UNION ALL SELECT * FROM counted)
    GROUP BY account_seq
    HAVING sum(posted) <> 0 OR sum(completed) <> 0 OR sum(failed) <> 0 OR sum(cancelled) <> 0
      OR sum(firsts) <> 0 OR sum(delivered) <> 0 OR sum(timed) <> 0 OR sum(sent) <> 0
  )`;

const BROKEN_SERIES = `
  SELECT count(*) FROM (
    SELECT 1 FROM attempts
    GROUP BY task_seq, kind
    HAVING count(*) <> max(number) OR count(DISTINCT number) <> max(number)
  )`;

// An attempt that a crash cut off uses up no retry.
const WRONG_RETRIES = `
  SELECT count(*) FROM attempts AS a
  JOIN attempts AS b ON b.task_seq = a.task_seq AND b.kind = a.kind AND b.number = a.number + 1
  WHERE b.retry <> a.retry + (a.outcome <> 'interrupted')`;

// An attempt has the account itself, so that an index does not need the task.
const FOREIGN_ATTEMPTS = `
  SELECT count(*) FROM attempts AS a JOIN tasks AS t ON t.seq = a.task_seq
  WHERE a.account_seq IS NOT t.account_seq`;

const SENT_CANCELLED = `
  SELECT count(*) FROM tasks AS t
  WHERE t.state = 'cancelled' AND (
    t.ready = 1
    OR EXISTS (SELECT 1 FROM attempts AS a WHERE a.task_seq = t.seq)
    OR EXISTS (SELECT 1 FROM deliveries AS d WHERE d.task_seq = t.seq AND d.ended IS NOT NULL)
  )`;

const DELIVERED = `
  SELECT t.id || '-' || d.kind FROM deliveries AS d JOIN tasks AS t ON t.seq = d.task_seq
  WHERE d.ended = 'delivered'`;

/** Lists all faults of a database, after any fault of its daemon and also while one runs. */
export function inspectAnytime(file: string, promises: Promises): readonly string[] {
  using view = new DatabaseView(file);
  return [
    ...checkIntegrity(view),
    ...fault(view.number(WRONG_COUNTS), "states of an account are counted wrongly"),
    ...fault(view.number(WRONG_HOSTS), "hosts of an account are counted wrongly"),
    ...fault(view.number(WRONG_TRAFFIC), "accounts, or all of them together, have wrong traffic"),
    ...fault(view.number(FOREIGN_ATTEMPTS), "attempts are of another account than their task"),
    ...fault(view.number(SENT_CANCELLED), "cancelled tasks are ready or have something to send"),
    ...brokenPromises(view, promises),
  ];
}

/** Acknowledged and shown states must not change. */
function brokenPromises(view: DatabaseView, promises: Promises): readonly string[] {
  const ids = (what: string): Set<unknown> => new Set(view.column(`SELECT id FROM tasks ${what}`));
  const without = (wanted: Iterable<string>, found: ReadonlySet<unknown>): readonly string[] =>
    [...wanted].filter((each) => !found.has(each));
  const ready = ids("WHERE ready = 1");
  const delivered = new Set(view.column(DELIVERED));
  return [
    ...faultOf(without(promises.tasks.keys(), ids("")), "acknowledged tasks are lost"),
    ...faultOf(
      without(promises.cancelled, ids("WHERE state = 'cancelled'")),
      "cancelled tasks are not cancelled any more",
    ),
    ...faultOf(
      without(promises.finished.keys(), ids("WHERE state = 'completed'")),
      "completed tasks are not completed any more",
    ),
    ...faultOf(
      [...promises.collected].filter((id) => ready.has(id)),
      "tasks that were collected are ready",
    ),
    ...faultOf(
      without(promises.delivered, delivered),
      "deliveries that were shown as delivered are not",
    ),
  ];
}

/**
 * Lists everything that must not be in the database of a daemon that has finished and stopped, however its tasks
 * ended.
 */
export function inspectFinished(file: string, promises: Promises): readonly string[] {
  using view = new DatabaseView(file);
  const count = (what: string): number => view.number(`SELECT count(*) FROM ${what}`);
  const open = "tasks WHERE state NOT IN ('completed', 'failed', 'cancelled')";
  const undelivered = `deliveries AS d JOIN tasks AS t ON t.seq = d.task_seq
    WHERE d.ended IS NOT 'delivered' AND t.state <> 'cancelled'`;
  const keys = wrongKeys(view, promises.promised);
  return [
    ...inspectAnytime(file, promises),
    ...fault(count(open), "tasks are not over"),
    ...fault(keys, "idempotency keys stand for too many or too few tasks"),
    ...fault(count(undelivered), "deliveries are not over"),
    ...fault(count("attempts WHERE ended_at IS NULL"), "attempts have no end"),
    ...fault(
      view.number(BROKEN_SERIES),
      "deliveries have attempts with missing or repeated numbers",
    ),
    ...fault(view.number(WRONG_RETRIES), "attempts count the retries before them wrongly"),
    ...fault(count("attempts WHERE started_at < due_at"), "attempts were begun before their time"),
  ];
}

function checkIntegrity(view: DatabaseView): readonly string[] {
  const findings = view.column("PRAGMA integrity_check").filter((finding) => finding !== "ok");
  const orphans = view.column("PRAGMA foreign_key_check").length;
  return [...findings.map(String), ...fault(orphans, "rows refer to rows that are not there")];
}

/** A task that was posted with a key has that key for its tag. */
function wrongKeys(view: DatabaseView, promised: ReadonlyMap<string, number>): number {
  const found = view.column(`
    SELECT tag || ' ' || count(*) FROM tasks WHERE tag IS NOT NULL GROUP BY tag`);
  const wanted = new Set([...promised].map(([key, tasks]) => `${key} ${tasks}`));
  const right = found.filter((each) => wanted.has(String(each))).length;
  return Math.max(found.length, wanted.size) - right;
}

function fault(count: number, text: string): readonly string[] {
  return count === 0 ? [] : [`${count} ${text}`];
}

/** A fault that some share. */
export function faultOf(found: readonly string[], text: string): readonly string[] {
  return fault(found.length, `${text}, ${found[0]} for one`);
}
