import { OPEN_DELIVERY_MS } from "../../domain/clock/service-clock.ts";
import { type HostChange, countErased } from "../../domain/stats/work-counts.ts";
import { type StoredState, decideErasure } from "../../domain/task/task.ts";
import { ANSWER_OVERHEAD_BYTES, TASK_OVERHEAD_BYTES } from "../common/large-task.ts";
import { type ExpiredRow, type SizedRow, takeWithin } from "../common/list.ts";
import { eraseAudit } from "../sql/audit.ts";
import { ON_SQLITE } from "../sql/task-columns.ts";
import type { BatchChanges } from "./counts.ts";
import { type Connection, eraseSome } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";
import { ATTEMPT_BYTES } from "./tasks.ts";
import { trafficErasure } from "./traffic.ts";
import { bindUseCases } from "./use-cases.ts";

/** The next tasks to look at, with their sizes: nothing after them is read, however many of them have to be kept. */
export const DUE_TASKS = `
  SELECT t.seq, t.id, ${ON_SQLITE.textBytes} + ${ATTEMPT_BYTES} AS bytes
  FROM tasks AS t
  ${ON_SQLITE.joins}
  WHERE t.erase_at IS NOT NULL AND t.erase_at <= @now
  ORDER BY t.erase_at
  LIMIT @max`;

/** Those of them that have a webhook still to be sent. They are no longer due. */
export const KEEP_UNDELIVERED = `
  UPDATE tasks SET erase_at = @now + ${OPEN_DELIVERY_MS}
  WHERE seq IN (SELECT value FROM json_each(@seqs))
    AND EXISTS (SELECT 1 FROM deliveries WHERE task_seq = tasks.seq AND state = 'open')
  RETURNING seq`;

const OLD_ANSWERS = `WHERE erase_at < @answersBefore ORDER BY erase_at`;

/** The size of each answer that {@link ERASE_ANSWERS} would erase. */
export const SIZE_ANSWERS = `
  SELECT octet_length(answer_text) AS bytes FROM idempotency_keys ${OLD_ANSWERS} LIMIT @max`;

export const ERASE_ANSWERS = `
  ${eraseSome("idempotency_keys", OLD_ANSWERS)}
  RETURNING account_seq AS accountSeq, octet_length(answer_text) + ${ANSWER_OVERHEAD_BYTES} AS bytes`;

export const ERASE_REQUESTS = eraseSome(
  "access_requests",
  `WHERE decision IS NOT NULL AND decided_at > @from AND decided_at < @to ORDER BY decided_at`,
);

// By account, because an index has the revoked keys of each. A key is kept as long as a session has it.
export const ERASE_REVOKED_KEYS = `
  DELETE FROM keys WHERE seq IN (
    SELECT k.seq FROM accounts AS a CROSS JOIN keys AS k ON k.account_seq = a.seq
    WHERE k.revoked_at IS NOT NULL AND k.revoked_at > @from AND k.revoked_at < @to
      AND NOT EXISTS (SELECT 1 FROM sessions WHERE key_seq = k.seq)
    LIMIT @max
  )`;

export const ERASE_PENDING_REQUESTS = eraseSome(
  "access_requests",
  `WHERE decision IS NULL AND (created_at < @pendingBefore OR created_at > @recordsAfter) ORDER BY seq`,
);

export const ERASE_ORDERS = eraseSome(
  "redelivery_orders",
  `WHERE ended_at IS NOT NULL AND ended_at > @from AND ended_at < @to ORDER BY ended_at`,
);

export const ERASE_SESSIONS = eraseSome(
  "sessions",
  `WHERE created_at < @sessionsBefore ORDER BY created_at`,
);

// The operator makes them one by one, so there are few.
export const ERASE_LINKS = eraseSome("sign_in_links", `WHERE expires_at < @linksBefore`, "hash");

const INSERT_SECRET = `INSERT INTO secrets (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`;

const FIND_SECRET = `SELECT value FROM secrets WHERE name = ?`;

// 4 MiB at a time: such a step takes tens of milliseconds at worst, for which new tasks wait.
const RECLAIM_PAGES = 1000;

interface ErasedAnswer {
  readonly accountSeq: number;
  readonly bytes: number;
}

export function upkeepWrites(connection: Connection, changes: BatchChanges) {
  const eraseAnswers = connection.prepare<[object], ErasedAnswer>(ERASE_ANSWERS);
  const sizeAnswers = connection.prepare<[object], Pick<SizedRow, "bytes">>(SIZE_ANSWERS);
  const eraseRequests = connection.prepare(ERASE_REQUESTS);
  const erasePending = connection.prepare(ERASE_PENDING_REQUESTS);
  const eraseOrders = connection.prepare(ERASE_ORDERS);
  const eraseKeys = connection.prepare(ERASE_REVOKED_KEYS);
  const eraseSessions = connection.prepare(ERASE_SESSIONS);
  const eraseLinks = connection.prepare(ERASE_LINKS);
  const eraseTraffic = trafficErasure(connection);
  const erase = bindUseCases(connection, { eraseAudit });
  const insertSecret = connection.prepare<[string, string]>(INSERT_SECRET);
  const findSecret = connection.prepare<[string], string>(FIND_SECRET).pluck();
  const pragma = pragmaReader(connection);

  return {
    keepSecret({ name, fresh }) {
      insertSecret.run(name, fresh);
      return findSecret.get(name) ?? fresh;
    },

    eraseExpired: expiredErasure(connection, changes),

    eraseStale(due) {
      const { max } = due;
      const future = { from: due.recordsAfter, to: Number.MAX_SAFE_INTEGER, max };
      const decided = [{ from: 0, to: due.decidedBefore, max }, future];
      const traffic = [{ from: 0, to: due.trafficBefore, max }, future];
      const erased = [
        ...decided.flatMap((span) =>
          [eraseRequests, eraseOrders, eraseKeys].map((erase) => erase.run(span).changes),
        ),
        ...traffic.map((span) => eraseTraffic(span)),
        erasePending.run(due).changes +
          eraseSessions.run(due).changes +
          eraseLinks.run(due).changes,
        erase.eraseAudit({ before: due.auditBefore, max }),
      ].reduce((sum, count) => sum + count, 0);
      const together = takeWithin(sizeAnswers.iterate(due)).length;
      const answers = eraseAnswers.all({ ...due, max: together });
      for (const { accountSeq, bytes } of answers) changes.counts.add(accountSeq, "bytes", -bytes);
      return answers.length + erased;
    },

    // Less than one step is kept for the next tasks: giving it back would only make the file grow again.
    reclaimSpace() {
      const before = pragma("freelist_count");
      if (before <= RECLAIM_PAGES) return "done";
      connection.pragma(`incremental_vacuum(${RECLAIM_PAGES})`);
      const after = pragma("freelist_count");
      // A file without auto_vacuum never shrinks: asking again would never end.
      return after > RECLAIM_PAGES && after < before ? "more" : "done";
    },

    // Writes the first page of the file again, unchanged: nothing else would cause a commit.
    tryWrite: () => void connection.pragma(`user_version = ${pragma("user_version")}`),
  } satisfies Steps;
}

function expiredErasure(
  connection: Connection,
  changes: BatchChanges,
): Required<Steps>["eraseExpired"] {
  const dueTasks = connection.prepare<[object], ExpiredRow>(DUE_TASKS);
  const keepUndelivered = connection.prepare<[object], number>(KEEP_UNDELIVERED).pluck();
  const eraseTasks = taskEraser(connection, changes);
  return (due) => {
    const expired = takeWithin(dueTasks.iterate(due));
    const seqs = JSON.stringify(expired.map(({ seq }) => seq));
    const kept = new Set(keepUndelivered.all({ now: due.now, seqs }));
    const erased = expired.filter(({ seq }) => !kept.has(seq));
    eraseTasks(erased.map(({ seq }) => seq));
    return { looked: expired.length, erased: erased.map(({ id }) => id) };
  };
}

export function upkeepReads(connection: Connection) {
  const pragma = pragmaReader(connection);

  return {
    // One snapshot: otherwise pages that a commit frees or adds between two readings would be counted wrongly.
    usedBytes: connection.transaction(
      () => (pragma("page_count") - pragma("freelist_count")) * pragma("page_size"),
    ),
  } satisfies Steps;
}

function pragmaReader(connection: Connection): (name: string) => number {
  return (name) => Number(connection.pragma(name, { simple: true }));
}

const SEQS = `(SELECT value FROM json_each(@seqs))`;

export const ERASE_TASKS = `
  DELETE FROM tasks WHERE seq IN ${SEQS} RETURNING account_seq AS accountSeq, state, ready`;

/** The erased deliveries that were given up or refused. */
export const COUNT_UNDELIVERED = `
  SELECT t.account_seq AS accountSeq, d.host, d.state AS word, count(*) AS count
  FROM json_each(@seqs) AS erased
  CROSS JOIN tasks AS t ON t.seq = erased.value
  CROSS JOIN deliveries AS d INDEXED BY deliveries_failed ON d.task_seq = t.seq
  WHERE d.state IN ('given_up', 'refused')
  GROUP BY t.account_seq, d.host, d.state`;

/** The erased retries. */
export const COUNT_RETRYING = `
  SELECT t.account_seq AS accountSeq, a.host, 'retrying' AS word, count(*) AS count
  FROM json_each(@seqs) AS erased
  CROSS JOIN tasks AS t ON t.seq = erased.value
  CROSS JOIN attempts AS a INDEXED BY attempts_by_delivery ON a.task_seq = t.seq
  WHERE a.ended_at IS NULL AND a.retry > 0
  GROUP BY t.account_seq, a.host`;

/** The erased bytes of each account. */
export const COUNT_BYTES = `
  SELECT t.account_seq AS accountSeq, sum(${TASK_OVERHEAD_BYTES} + ${ON_SQLITE.textBytes} + ${ATTEMPT_BYTES}) AS count
  FROM json_each(@seqs) AS erased
  CROSS JOIN tasks AS t ON t.seq = erased.value
  ${ON_SQLITE.joins}
  GROUP BY t.account_seq`;

/** When the newest task is erased, its seq goes to the next task, which is younger than every mark. */
export const LOWER_MARKS = `
  UPDATE queue_marks SET task_seq = (SELECT coalesce(max(seq), 0) FROM tasks)
  WHERE task_seq > (SELECT coalesce(max(seq), 0) FROM tasks)`;

const FIND_TO_ERASE = `
  SELECT seq, state,
    EXISTS (SELECT 1 FROM deliveries WHERE task_seq = tasks.seq AND state = 'open') AS isOpen
  FROM tasks WHERE id = ?`;

interface ErasedRow {
  readonly accountSeq: number;
  readonly state: StoredState;
  readonly ready: 0 | 1;
}

/**
 * Erases tasks, for any caller. Inputs, results, leases, deliveries and attempts go with them, by ON DELETE CASCADE,
 * and so does what is counted of them. Answers how many there were.
 */
export function taskEraser(
  connection: Connection,
  changes: BatchChanges,
): (seqs: readonly number[], open?: "has retries") => number {
  const { counts, hosts } = changes;
  const erase = connection.prepare<[object], ErasedRow>(ERASE_TASKS);
  const countUndelivered = connection.prepare<[object], HostChange>(COUNT_UNDELIVERED);
  const countBytes = connection.prepare<[object], { accountSeq: number; count: number }>(
    COUNT_BYTES,
  );
  const countRetrying = connection.prepare<[object], HostChange>(COUNT_RETRYING);
  const lowerMarks = connection.prepare(LOWER_MARKS);

  return (list, open) => {
    if (list.length === 0) return 0;
    const seqs = { seqs: JSON.stringify(list) };
    const retried = open === undefined ? [] : countRetrying.all(seqs);
    for (const change of [...countUndelivered.all(seqs), ...retried]) {
      hosts.add({ ...change, count: -change.count });
    }
    for (const { accountSeq, count } of countBytes.all(seqs)) {
      counts.add(accountSeq, "bytes", -count);
    }
    const erased = erase.all(seqs);
    for (const { accountSeq, state, ready } of erased) {
      countErased(changes, { accountSeq, state, isReady: ready === 1 });
    }
    lowerMarks.run();
    return erased.length;
  };
}

export function taskErasureWrites(connection: Connection, changes: BatchChanges) {
  const find = connection.prepare<[string], { seq: number; state: StoredState; isOpen: 0 | 1 }>(
    FIND_TO_ERASE,
  );
  const erase = taskEraser(connection, changes);

  return {
    eraseTask({ id, hasWebhooks }) {
      const task = find.get(id);
      const isToBeSent = task?.isOpen === 1;
      const outcome = decideErasure(task?.state, { isToBeSent, hasWebhooks });
      if (task !== undefined && outcome === "erased") erase([task.seq], "has retries");
      return outcome;
    },
  } satisfies Steps;
}
