import { entityTag } from "../../domain/id.ts";
import type { WebhookRequest } from "../../domain/webhook/webhook-request.ts";
import {
  envelopeBytes,
  postbackRequest,
  type LongTexts,
  type PostbackRow,
} from "../common/large-task.ts";
import { toSummary, type SummaryRow } from "../common/task-row.ts";
import type { AttemptRef, FoundTask, TaskLook } from "../store.ts";
import { SECRET_COLUMNS } from "./accounts.ts";
import type { Connection } from "./machine/connection.ts";
import { TEXT_JOINS } from "./task-bytes.ts";
import { SUMMARY_COLUMNS } from "./tasks.ts";

// Reads bytes: a text that is not Latin-1 would become one of twice the size, and bytes again (measured with 5 MB: 27
// ms instead of 2).
const TEXTS = `
  CAST(i.input_text AS BLOB) AS inputText, CAST(r.result_text AS BLOB) AS resultText,
  CAST(r.error_text AS BLOB) AS errorText`;

export const FIND_LARGE_TASK = `
  SELECT ${SUMMARY_COLUMNS}, t.ready, ${TEXTS}
  FROM tasks AS t
  ${TEXT_JOINS}
  WHERE t.id = @id AND t.account_seq = @accountId`;

/** Reads a {@link PostbackRow}. */
export const SELECT_LARGE_POSTBACK = `
  SELECT ${SUMMARY_COLUMNS}, d.url, t.trace_text AS traceText, ${SECRET_COLUMNS}, ${TEXTS}
  FROM tasks AS t
  JOIN deliveries AS d ON d.task_seq = t.seq AND d.kind = 'postback'
  JOIN accounts AS c ON c.seq = t.account_seq
  ${TEXT_JOINS}
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
