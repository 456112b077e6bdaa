import { taskEnvelopePieces, type TaskWith } from "../../domain/task/envelope.ts";
import { type TaskProgress } from "../../domain/task/run.ts";
import { signedRequest, type WebhookRequest } from "../../domain/webhook/webhook-request.ts";
import type { AttemptRef, WebhookSecrets } from "../store.ts";
import { toSummary, type SummaryRow } from "./task-row.ts";

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
