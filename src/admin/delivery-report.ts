import type { Attempt as AttemptShown, Delivery as DeliveryShown } from "../api/delivery.ts";
import { timeOrNull } from "../domain/clock/time.ts";
import {
  COMMAND_LINE_READER,
  explainAttempt,
  explainDelivery,
} from "../domain/webhook/delivery-explanation.ts";
import { pauseOf } from "../domain/webhook/delivery-pause.ts";
import { attemptDocument } from "../domain/webhook/delivery.ts";
import { messageHash } from "../domain/webhook/signature.ts";
import { parseUrlForm } from "../domain/webhook/url-form.ts";
import { sentRequest, signedMessage, webhookId } from "../domain/webhook/webhook-request.ts";
import { type UrlStep, postedUrls, urlSteps } from "../domain/webhook/webhook-url.ts";
import type {
  Attempt,
  Delivery,
  DeliveryPause,
  DeliverySummary,
  TaskDeliveries,
} from "../store/store.ts";

/** Collects everything that an operator can see of a delivery. */
export function reportDelivery(
  delivery: Delivery,
  found: TaskDeliveries,
  { now, pauses }: { readonly now: number; readonly pauses: readonly DeliveryPause[] },
) {
  const { kind, url } = delivery;
  const pause = pauseOf(pauses, { login: found.login, host: hostOf(url) });
  return {
    delivery,
    explanation: explainDelivery(delivery, { now, reader: COMMAND_LINE_READER, pause }),
    steps: stepsOf(delivery, found),
    /** The message that every attempt's X-Signature signs. */
    message: signedMessage({ kind, url, task: found.task }),
    attempts: delivery.attempts.map((attempt) => ({
      attempt,
      explanation: explainAttempt(attempt, { url, now, reader: COMMAND_LINE_READER }),
      /** Null when nothing was sent. */
      request: sentRequest(attempt, { ...found, kind, url }),
    })),
  };
}

export type DeliveryReport = ReturnType<typeof reportDelivery>;
export type AttemptReport = DeliveryReport["attempts"][number];

function stepsOf({ kind, url }: Delivery, { task }: TaskDeliveries): readonly UrlStep[] {
  const { postback, pingback, tag } = postedUrls(task);
  const posted = kind === "postback" ? postback : pingback;
  const values = kind === "pingback" ? { id: task.id, tag } : null;
  const [first, ...rest] = posted === null ? [] : urlSteps(posted, values);
  // The client's own text is not kept: a task holds its URLs in encoded form.
  const steps =
    first === undefined ? [] : [{ ...first, step: "as posted, in encoded form" }, ...rest];
  // Attempts request the stored URL, also if the present rules would make another of the posted URL.
  return steps.at(-1)?.url === url ? steps : [...steps, { step: "as stored", url }];
}

export function reportDocument(report: DeliveryReport, taskId: string) {
  const { delivery, message } = report;
  const { kind, url, state } = delivery;
  return {
    delivery_id: webhookId(taskId, kind),
    kind,
    url,
    state,
    explanation: report.explanation,
    url_steps: report.steps,
    attempts: report.attempts.map(attemptRecord),
    signed: { message, bytes: Buffer.byteLength(message), sha256: messageHash(message) },
  };
}

function attemptRecord({ attempt, explanation, request }: AttemptReport) {
  const { retryAfter } = attempt;
  return {
    explanation,
    ...attemptDocument(attempt),
    late_ms: lateMs(attempt),
    retry_after: retryAfter,
    method: request?.method ?? null,
    headers: request?.headers ?? null,
  };
}

/** The delay of an attempt behind its due time; null if it has not started. */
export function lateMs({ startedAt, dueAt }: Attempt): number | null {
  return startedAt === null ? null : Math.max(0, startedAt - dueAt);
}

/** The host of a webhook's URL: path and query can be secrets. */
export function hostOf(url: string): string {
  const form = parseUrlForm(url);
  return form.kind === "form" ? form.hostname : "-";
}

type DeliveryRecord = Pick<DeliveryShown, "delivery_id" | "kind" | "state" | "next_attempt_at"> & {
  readonly task_id: string;
  readonly login: string;
  readonly host: string;
  readonly last_attempt: Pick<
    AttemptShown,
    "number" | "ended_at" | "outcome" | "http_status" | "error"
  > | null;
};

/** A delivery in a list, without the path and query of its URL. */
export function deliveryRecord(summary: DeliverySummary): DeliveryRecord {
  const { taskId, kind, last } = summary;
  const lastAttempt = last && {
    number: last.number,
    ended_at: timeOrNull(last.endedAt),
    outcome: last.outcome,
    http_status: last.httpStatus,
    error: last.error,
  };
  return {
    delivery_id: `${taskId}-${kind}`,
    task_id: taskId,
    login: summary.login,
    kind,
    host: hostOf(summary.url),
    state: summary.state,
    next_attempt_at: timeOrNull(summary.nextDueAt),
    last_attempt: lastAttempt,
  };
}
