import { entityTag } from "../../domain/id.ts";
import { countCancelled, countCollected } from "../../domain/stats/work-counts.ts";
import {
  type OpenState,
  STATE_CODES,
  type StoredState,
  type TaskKey,
  decideCancel,
  openStateOf,
} from "../../domain/task/task.ts";
import type { WebhookRequest } from "../../domain/webhook/webhook-request.ts";
import {
  type LongTexts,
  type PostbackRow,
  READ_BYTES_MAX,
  envelopeBytes,
  postbackRequest,
} from "../common/large-task.ts";
import { type SummaryRow, type TaskRow, toSummary, toTask } from "../common/row.ts";
import { SECRET_COLUMNS } from "../sql/accounts.ts";
import { ON_SQLITE } from "../sql/task-columns.ts";
import type { AttemptRef, FoundTask, TaskCancel, TaskLook } from "../store.ts";
import type { BatchChanges } from "./counts.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

export const COLLECT_TASK = `
  UPDATE tasks SET ready = 0 WHERE id = @id AND account_seq = @accountId AND ready = 1`;

export const FIND_STATE = `
  SELECT seq, state FROM tasks WHERE id = @id AND account_seq = @accountId`;

export const CANCEL_TASK = `
  UPDATE tasks
  SET state = 'cancelled', status_code = ${STATE_CODES.cancelled}, completed_at = @cancelledAt, expires_at = @expiresAt,
      erase_at = @eraseAt
  WHERE seq = @seq`;

/** The response reports it to the holder of the lease, also to a late holder of an expired lease. */
export const CANCEL_LEASE = `
  UPDATE leases SET ending = 'cancelled'
  WHERE task_seq = ? AND (ending IS NULL OR ending = 'expired')`;

const IS_LARGE = `${ON_SQLITE.textBytes} > ${READ_BYTES_MAX}`;

/** The size of a large task's texts; null for any other task. */
export const LARGE_BYTES = `iif(${IS_LARGE}, ${ON_SQLITE.textBytes}, NULL)`;

function unlessLarge(column: string, name: string, instead = "NULL"): string {
  return `iif(${IS_LARGE}, ${instead}, ${column}) AS ${name}`;
}

/** As `all` of {@link ON_SQLITE}, but without the texts of a large task. */
export const COLUMNS_UNLESS_LARGE = `${ON_SQLITE.head}, ${unlessLarge("t.data_text", "dataText", "'{}'")},
    ${unlessLarge("i.input_text", "inputText")}, ${unlessLarge("r.result_text", "resultText")},
    ${unlessLarge("r.error_text", "errorText")}`;

/** A task with its texts; a large one without them. */
export const FIND_TASK = `
  SELECT t.ready, ${IS_LARGE} AS isLarge, ${COLUMNS_UNLESS_LARGE}
  FROM tasks AS t
  ${ON_SQLITE.joins}
  WHERE t.id = @id AND t.account_seq = @accountId`;

export function taskWrites(connection: Connection, changes: BatchChanges) {
  const collect = connection.prepare(COLLECT_TASK);
  const findState = connection.prepare<[object], { seq: number; state: StoredState }>(FIND_STATE);
  const setCancelled = connection.prepare(CANCEL_TASK);
  const cancelLease = connection.prepare(CANCEL_LEASE);

  function cancel(
    { seq, state }: { readonly seq: number; readonly state: StoredState },
    { accountId, cancelledAt, expiresAt, eraseAt }: Omit<TaskCancel, "id">,
  ): void {
    setCancelled.run({ seq, cancelledAt, expiresAt, eraseAt });
    cancelLease.run(seq);
    countCancelled(changes, { accountId, from: state, cancelledAt });
  }

  return {
    collectTask(key) {
      if (collect.run(key).changes > 0) countCollected(changes, key.accountId);
    },

    cancelTask(order) {
      const { accountId, id } = order;
      const found = findState.get({ accountId, id });
      const outcome = decideCancel(found?.state);
      if (found !== undefined && outcome === "cancelled") cancel(found, order);
      return outcome;
    },

    cancelTasks(order) {
      const { accountId, ids, states } = order;
      const cancelled: Record<OpenState, string[]> = { queued: [], running: [] };
      for (const id of ids) {
        const found = findState.get({ accountId, id });
        const open = found === undefined ? null : openStateOf(found.state);
        if (found === undefined || open === null || !states.includes(open)) continue;
        cancel(found, order);
        cancelled[open].push(id);
      }
      return cancelled;
    },
  } satisfies Steps;
}

export function taskReads(connection: Connection) {
  const find = connection.prepare<[object], TaskRow & { ready: 0 | 1; isLarge: 0 | 1 }>(FIND_TASK);

  return {
    /** Finds a task that is not large; returns `large` for a large task. */
    findTask({ accountId, id }: TaskKey): FoundTask | "large" | null {
      const row = find.get({ accountId, id });
      if (row === undefined) return null;
      return row.isLarge === 1 ? "large" : { task: toTask(row), isReady: row.ready === 1 };
    },
  };
}

// Reads bytes: a text that is not Latin-1 would become one of twice the size, and bytes again (measured with 5 MB: 27
// ms instead of 2).
const TEXTS = `
  CAST(i.input_text AS BLOB) AS inputText, CAST(r.result_text AS BLOB) AS resultText,
  CAST(r.error_text AS BLOB) AS errorText`;

export const FIND_LARGE_TASK = `
  SELECT ${ON_SQLITE.summary}, t.ready, ${TEXTS}
  FROM tasks AS t
  ${ON_SQLITE.joins}
  WHERE t.id = @id AND t.account_seq = @accountId`;

/** Reads a {@link PostbackRow}. */
export const SELECT_LARGE_POSTBACK = `
  SELECT ${ON_SQLITE.summary}, d.url, t.trace_text AS traceText, ${SECRET_COLUMNS}, ${TEXTS}
  FROM tasks AS t
  JOIN deliveries AS d ON d.task_seq = t.seq AND d.kind = 'postback'
  JOIN accounts AS c ON c.seq = t.account_seq
  ${ON_SQLITE.joins}
  WHERE t.seq = @taskSeq AND t.id = @taskId`;

type LargeRow = SummaryRow & LongTexts<Uint8Array> & { readonly ready: 0 | 1 };

export function largeTaskReads(connection: Connection) {
  const find = connection.prepare<[object], LargeRow>(FIND_LARGE_TASK);
  const selectPostback = connection.prepare<[object], PostbackRow<Uint8Array>>(
    SELECT_LARGE_POSTBACK,
  );

  return {
    /** Finds a task and its envelope; null for an unknown id and for another account's task alike. */
    findLargeTask({ accountId, id, progress }: TaskLook): FoundTask | null {
      const row = find.get({ accountId, id });
      if (row === undefined) return null;
      const bytes = envelopeBytes(row, progress);
      // The bytes hold everything else, and go to another thread without a copy.
      const task = { ...toSummary(row), dataText: "{}", ...NO_TEXTS };
      return { task, isReady: row.ready === 1, envelope: { bytes, tag: entityTag(bytes) } };
    },

    /** Makes the request of a postback under way, signed; null when its task is gone. */
    makeLargePostback(attempt: AttemptRef): WebhookRequest<Uint8Array> | null {
      const { taskSeq, taskId } = attempt;
      const row = selectPostback.get({ taskSeq, taskId });
      return row === undefined ? null : postbackRequest(row, attempt);
    },
  };
}

const NO_TEXTS = { inputText: null, resultText: null, errorText: null };
