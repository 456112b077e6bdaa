import { entityTag } from "../../domain/entity-tag.ts";
import { taskEnvelopePieces } from "../../domain/task/envelope.ts";
import { signedRequest, type WebhookRequest } from "../../domain/webhook/webhook-request.ts";
import { toSummary, type SummaryRow } from "../common/task-row.ts";
import type { AttemptRef, FoundTask, TaskLook, WebhookSecrets } from "../store.ts";
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

interface LargeTexts {
  readonly inputText: Uint8Array | null;
  readonly resultText: Uint8Array | null;
  readonly errorText: Uint8Array | null;
}

/** The parts of a large postback. */
export const SELECT_LARGE_POSTBACK = `
  SELECT ${SUMMARY_COLUMNS}, d.url, ${SECRET_COLUMNS}, ${TEXTS}
  FROM tasks AS t
  JOIN deliveries AS d ON d.task_seq = t.seq AND d.kind = 'postback'
  JOIN accounts AS c ON c.seq = t.account_seq
  ${TEXT_JOINS}
  WHERE t.seq = @taskSeq AND t.id = @taskId`;

type LargeRow = SummaryRow & LargeTexts & { readonly ready: 0 | 1 };
type LargePostbackRow = SummaryRow & LargeTexts & WebhookSecrets & { readonly url: string };

export function largeTaskReads(connection: Connection) {
  const find = connection.prepare<[object], LargeRow>(FIND_LARGE_TASK);
  const selectPostback = connection.prepare<[object], LargePostbackRow>(SELECT_LARGE_POSTBACK);

  return {
    /** Finds a task and its envelope; null for an unknown id and for another account's task alike. */
    findLargeTask({ accountId, id, progress }: TaskLook): FoundTask | null {
      const row = find.get({ accountId, id });
      if (row === undefined) return null;
      const summary = toSummary(row);
      const bytes = toBytes(taskEnvelopePieces({ ...summary, ...textsOf(row) }, progress));
      // The bytes hold everything else, and go to another thread without a copy.
      const task = { ...summary, dataText: "{}", ...NO_TEXTS };
      return { task, isReady: row.ready === 1, envelope: { bytes, tag: entityTag(bytes) } };
    },

    /** Makes the request of a postback under way, signed; null when its task is gone. */
    makeLargePostback(attempt: AttemptRef): WebhookRequest<Uint8Array> | null {
      const { taskSeq, taskId, number, startedAt } = attempt;
      const row = selectPostback.get({ taskSeq, taskId });
      if (row === undefined) return null;
      const { url, webhookSecret, webhookSecretNext } = row;
      const task = toSummary(row);
      const message = toBytes(taskEnvelopePieces({ ...task, ...textsOf(row) }));
      const facts = { kind: "postback", url, task, number, startedAt } as const;
      return signedRequest({ ...facts, webhookSecret, webhookSecretNext }, message);
    },
  };
}

const NO_TEXTS = { inputText: null, resultText: null, errorText: null };

function textsOf({ inputText, resultText, errorText }: LargeTexts): LargeTexts {
  return { inputText, resultText, errorText };
}

function toBytes(pieces: readonly (Uint8Array | string)[]): Uint8Array {
  return Buffer.concat(
    pieces.map((piece) => (typeof piece === "string" ? Buffer.from(piece) : piece)),
  );
}
