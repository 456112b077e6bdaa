import { OPEN_DELIVERY_MS } from "../../domain/retention.ts";
import type { StaleBefore } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import type { Connection } from "./connection.ts";
import { TASK_OVERHEAD_BYTES, TASK_TEXT_BYTES } from "./task-bytes.ts";
import type { StoredState } from "./task-counts.ts";
import { trafficErasure } from "./traffic.ts";

/** The next tasks to be looked at: nothing behind them is read, however many of them have to be kept. */
const DUE = `
  SELECT seq FROM tasks
  WHERE erase_at IS NOT NULL AND erase_at <= @now
  ORDER BY erase_at
  LIMIT @max`;

/** Those that have a webhook still to be sent. They are due no more. */
export const KEEP_UNDELIVERED = `
  UPDATE tasks SET erase_at = @now + ${OPEN_DELIVERY_MS}
  WHERE seq IN (${DUE})
    AND EXISTS (SELECT 1 FROM deliveries WHERE task_seq = tasks.seq AND state = 'open')`;

export const ERASE_EXPIRED = `
  DELETE FROM tasks WHERE seq IN (${DUE}) RETURNING account_seq, state, ready`;

/** The deliveries that go with what {@link ERASE_EXPIRED} erases, and were given up or refused. */
export const COUNT_UNDELIVERED = `
  SELECT t.account_seq, count(*) AS count
  FROM (${DUE}) AS due
  CROSS JOIN tasks AS t ON t.seq = due.seq
  CROSS JOIN deliveries AS d INDEXED BY deliveries_failed ON d.task_seq = due.seq
  WHERE d.state IN ('given_up', 'refused')
  GROUP BY t.account_seq`;

/** What {@link ERASE_EXPIRED} erases of each account's bytes. */
export const SUM_EXPIRED = `
  SELECT t.account_seq, sum(${TASK_OVERHEAD_BYTES} + ${TASK_TEXT_BYTES}) AS count
  FROM (${DUE}) AS due
  CROSS JOIN tasks AS t ON t.seq = due.seq
  LEFT JOIN task_inputs AS i ON i.task_seq = t.seq
  LEFT JOIN task_results AS r ON r.task_seq = t.seq
  GROUP BY t.account_seq`;

/** How large the next tasks to be looked at are, task by task. */
export const SIZE_EXPIRED = `
  SELECT ${TASK_TEXT_BYTES}
  FROM tasks AS t
  LEFT JOIN task_inputs AS i ON i.task_seq = t.seq
  LEFT JOIN task_results AS r ON r.task_seq = t.seq
  WHERE t.erase_at IS NOT NULL AND t.erase_at <= @now
  ORDER BY t.erase_at
  LIMIT @max`;

/** How large what {@link ERASE_ANSWERS} would erase is, answer by answer. */
export const SIZE_ANSWERS = `
  SELECT octet_length(answer_text) FROM idempotency_keys
  WHERE erase_at < @answersBefore
  ORDER BY erase_at
  LIMIT @max`;

export const ERASE_ANSWERS = `
  DELETE FROM idempotency_keys
  WHERE seq IN (
    SELECT seq FROM idempotency_keys
    WHERE erase_at < @answersBefore
    ORDER BY erase_at
    LIMIT @max
  )`;

export const ERASE_REQUESTS = `
  DELETE FROM access_requests
  WHERE seq IN (
    SELECT seq FROM access_requests
    WHERE decision IS NOT NULL AND decided_at > @from AND decided_at < @to
    ORDER BY decided_at
    LIMIT @max
  )`;

export const ERASE_ORDERS = `
  DELETE FROM redelivery_orders
  WHERE seq IN (
    SELECT seq FROM redelivery_orders
    WHERE ended_at IS NOT NULL AND ended_at > @from AND ended_at < @to
    ORDER BY ended_at
    LIMIT @max
  )`;

export const ERASE_SESSIONS = `
  DELETE FROM sessions
  WHERE seq IN (
    SELECT seq FROM sessions WHERE created_at < @sessionsBefore ORDER BY created_at LIMIT @max
  )`;

// The operator makes them one by one.
export const ERASE_LINKS = `
  DELETE FROM sign_in_links
  WHERE hash IN (SELECT hash FROM sign_in_links WHERE expires_at < @linksBefore LIMIT @max)`;

// What one step erases is overwritten, as secure_delete wants it: 100 tasks of 5 MiB kept every other write waiting
// for 5.7 s (measured), and this much keeps it for some 20 ms.
const ERASE_BYTES_MAX = 2 * 1024 * 1024;

// 4 MiB at a time: a step this long is measured in tens of milliseconds at worst, and new tasks wait behind it.
const RECLAIM_PAGES = 1000;

interface ErasedRow {
  account_seq: number;
  state: StoredState;
  ready: 0 | 1;
}

interface CountRow {
  account_seq: number;
  count: number;
}

/** Takes out of the counts what goes with the tasks that are erased next. */
function uncounting(connection: Connection, counts: BatchChanges["counts"]) {
  const countUndelivered = connection.prepare<[object], CountRow>(COUNT_UNDELIVERED);
  const sumExpired = connection.prepare<[object], CountRow>(SUM_EXPIRED);

  return (bounds: { now: number; max: number }): void => {
    for (const { account_seq: accountSeq, count } of countUndelivered.all(bounds)) {
      counts.add(accountSeq, "undelivered", -count);
    }
    for (const { account_seq: accountSeq, count } of sumExpired.all(bounds)) {
      counts.add(accountSeq, "bytes", -count);
    }
  };
}

/** The writes that keep the file's size in bounds. Each runs inside the transaction of its batch. */
export function upkeepWrites(connection: Connection, { counts }: BatchChanges) {
  const erase = connection.prepare<[object], ErasedRow>(ERASE_EXPIRED);
  const keepUndelivered = connection.prepare(KEEP_UNDELIVERED);
  const uncount = uncounting(connection, counts);
  const sizeExpired = connection.prepare<[object], number>(SIZE_EXPIRED).pluck();
  const eraseAnswers = connection.prepare(ERASE_ANSWERS);
  const sizeAnswers = connection.prepare<[object], number>(SIZE_ANSWERS).pluck();
  const eraseRequests = connection.prepare(ERASE_REQUESTS);
  const eraseOrders = connection.prepare(ERASE_ORDERS);
  const eraseSessions = connection.prepare(ERASE_SESSIONS);
  const eraseLinks = connection.prepare(ERASE_LINKS);
  const eraseTraffic = trafficErasure(connection);
  const freePages = (): number => Number(connection.pragma("freelist_count", { simple: true }));

  return {
    // Inputs, results, deliveries and attempts go with their task, by ON DELETE CASCADE.
    eraseExpired(due: { now: number; max: number }): number {
      const looked = { ...due, max: countWithin(sizeExpired.iterate(due)) };
      const kept = keepUndelivered.run(looked).changes;
      const bounds = { ...due, max: looked.max - kept };
      uncount(bounds);
      const erased = erase.all(bounds);
      for (const { account_seq: accountSeq, state, ready } of erased) {
        counts.add(accountSeq, state, -1);
        if (ready === 1) counts.add(accountSeq, "ready", -1);
      }
      return erased.length + kept;
    },

    eraseStale(due: StaleBefore & { max: number }): number {
      const { decidedBefore, trafficBefore, recordsAfter, max } = due;
      const future = { from: recordsAfter, to: Number.MAX_SAFE_INTEGER, max };
      const decided = [{ from: 0, to: decidedBefore, max }, future];
      const traffic = [{ from: 0, to: trafficBefore, max }, future];
      const erased = [
        ...decided.map((span) => eraseRequests.run(span).changes + eraseOrders.run(span).changes),
        ...traffic.map((span) => eraseTraffic(span)),
        eraseSessions.run(due).changes,
        eraseLinks.run(due).changes,
      ].reduce((sum, changes) => sum + changes, 0);
      const answers = countWithin(sizeAnswers.iterate(due));
      return eraseAnswers.run({ ...due, max: answers }).changes + erased;
    },

    // What is left below one step is kept for the next tasks: giving it back would only make the file grow again.
    reclaimSpace(): "more" | "done" {
      const before = freePages();
      if (before <= RECLAIM_PAGES) return "done";
      connection.pragma(`incremental_vacuum(${RECLAIM_PAGES})`);
      const after = freePages();
      // A file without auto_vacuum never shrinks: asking again would be asking for ever.
      return after > RECLAIM_PAGES && after < before ? "more" : "done";
    },
  };
}

/** How many of the first may be erased in one step; one at least, however large: it would never be erased otherwise. */
function countWithin(sizes: Iterable<number>): number {
  let count = 0;
  let bytes = 0;
  for (const size of sizes) {
    bytes += size;
    if (count > 0 && bytes > ERASE_BYTES_MAX) break;
    count++;
  }
  return count;
}

/** The reads on the file as a whole. */
export function upkeepReads(connection: Connection) {
  const pragma = (name: string): number => Number(connection.pragma(name, { simple: true }));
  // Pages that a commit between two of these readings frees or adds would be counted wrongly.
  const usedBytes = connection.transaction(
    () => (pragma("page_count") - pragma("freelist_count")) * pragma("page_size"),
  );

  return { usedBytes: (): number => usedBytes() };
}
