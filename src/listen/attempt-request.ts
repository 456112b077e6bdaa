import type { ListedAttempt } from "../api/delivery.ts";
import type { HeaderLine, TimelineDelivery } from "../api/timeline.ts";
import { parseTrace, traceText } from "../domain/task/trace.ts";
import { signedRequest, type WebhookRequest } from "../domain/webhook/webhook-request.ts";

export interface WebhookSecrets {
  readonly current: string;
  readonly next: string | null;
}

export interface StartedAttempt extends ListedAttempt {
  readonly started_at: string;
}

/** The message that X-Signature signs: the body of a postback, or the URL of a pingback. */
export type SignedBytes = string | Uint8Array;

/**
 * The request of an attempt, made as the daemon makes it, from the same facts. The API shows those of attempts that went
 * out, but not of those that found no receiver, and of old ones with large bodies no signature.
 */
export function attemptRequest(
  attempt: StartedAttempt,
  {
    delivery,
    message,
    secrets,
  }: {
    readonly delivery: TimelineDelivery;
    readonly message: SignedBytes;
    readonly secrets: WebhookSecrets;
  },
): WebhookRequest<SignedBytes> {
  const { task_id: id, kind, number, started_at: startedAt } = attempt;
  return signedRequest<SignedBytes>(
    {
      task: { id },
      kind,
      url: delivery.url,
      number,
      startedAt: Date.parse(startedAt),
      webhookSecret: secrets.current,
      webhookSecretNext: secrets.next,
      traceText: traceIn(delivery.request.headers),
    },
    message,
  );
}

/** True when the daemon, too, signs these bytes so. It does not when the secrets are not the account's any more. */
export function isSignedAlike(
  { headers }: WebhookRequest<SignedBytes>,
  { request }: TimelineDelivery,
): boolean {
  const next = headers["x-signature-next"] ?? null;
  return headers["x-signature"] === request.signature && next === request.signature_next;
}

function traceIn(headers: readonly HeaderLine[]): string | null {
  const valuesOf = (wanted: string): readonly string[] =>
    headers.flatMap(([name, value]) => (name === wanted ? [value] : []));
  return traceText(parseTrace(valuesOf("traceparent"), valuesOf("tracestate")));
}
