import { type TaskWith, taskEnvelopePieces } from "../../domain/task/envelope.ts";
import type { TaskProgress } from "../../domain/task/run.ts";
import { type WebhookRequest, signedRequest } from "../../domain/webhook/webhook-request.ts";
import type { AttemptRef, WebhookSecrets } from "../store.ts";
import { type SummaryRow, toSummary } from "./row.ts";

/** A task's long texts, as a store reads them: as text or as the bytes of it. */
export type LongTexts<Text extends string | Uint8Array> = Pick<
  TaskWith<Text>,
  "inputText" | "resultText" | "errorText"
>;

/** The parts of a large postback. */
export type PostbackRow<Text extends string | Uint8Array> = SummaryRow &
  LongTexts<Text> &
  WebhookSecrets & { readonly url: string; readonly traceText: string | null };

/** The envelope of a task, in bytes. */
export function envelopeBytes<Text extends string | Uint8Array>(
  row: SummaryRow & LongTexts<Text>,
  progress: TaskProgress | null = null,
): Uint8Array {
  const { inputText, resultText, errorText } = row;
  const task = { ...toSummary(row), inputText, resultText, errorText };
  const pieces = taskEnvelopePieces<Text>(task, progress);
  return Buffer.concat(pieces.map(toBytes));
}

/** The request of a postback under way, signed. */
export function postbackRequest<Text extends string | Uint8Array>(
  row: PostbackRow<Text>,
  { number, startedAt }: Pick<AttemptRef, "number" | "startedAt">,
): WebhookRequest<Uint8Array> {
  const { id, url, webhookSecret, webhookSecretNext, traceText } = row;
  const facts = { kind: "postback", url, task: { id }, number, startedAt } as const;
  return signedRequest(
    { ...facts, webhookSecret, webhookSecretNext, traceText },
    envelopeBytes(row),
  );
}

function toBytes(text: string | Uint8Array): Uint8Array {
  return typeof text === "string" ? Buffer.from(text) : text;
}

/** The bytes that an account is charged for, beside the texts. Measured in SQLite; both stores count the same. */

/**
 * The size of a task beside its texts: its rows and their index entries. Measured in files of 50,000 tasks: 211 bytes
 * for a queued task, 303 for a finished one, 537 with a tag and a delivered webhook. So no account takes up more of the
 * file than is counted, except for the free space that large tasks leave in their last pages.
 */
export const TASK_OVERHEAD_BYTES = 512;

/** The most bytes of a task's texts in one read: they take a third of a millisecond to the socket. */
export const READ_BYTES_MAX = 64 * 1024;

/** The size of texts that are about to be written: what `octet_length` will return. */
export function textBytes(...texts: readonly (string | null)[]): number {
  return texts.reduce((sum, text) => sum + (text === null ? 0 : Buffer.byteLength(text)), 0);
}

/** The size of an ended attempt beside its texts. Measured as above: 150 bytes with a host of 17 letters. */
export const ATTEMPT_OVERHEAD_BYTES = 192;

/** The size of a kept answer beside its text. Measured as above: 190 bytes with a key of 36 letters, 683 with 255. */
export const ANSWER_OVERHEAD_BYTES = 512;
