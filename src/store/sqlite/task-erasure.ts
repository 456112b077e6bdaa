import { type HostChange, countErased } from "../../domain/stats/work-counts.ts";
import { type StoredState, decideErasure } from "../../domain/task/task.ts";
import { TASK_OVERHEAD_BYTES } from "../common/byte-sizes.ts";
import type { BatchChanges } from "./batch-changes.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";
import { ATTEMPT_BYTES, TASK_TEXT_BYTES, TEXT_JOINS } from "./task-bytes.ts";

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
  SELECT t.account_seq AS accountSeq, sum(${TASK_OVERHEAD_BYTES} + ${TASK_TEXT_BYTES} + ${ATTEMPT_BYTES}) AS count
  FROM json_each(@seqs) AS erased
  CROSS JOIN tasks AS t ON t.seq = erased.value
  ${TEXT_JOINS}
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
