import type { ListedAttempt } from "../api/delivery.ts";
import type { HeaderLine, TimelineDelivery } from "../api/timeline.ts";
import { Resolver } from "../deliver/resolver.ts";
import { Sender, type SenderOptions } from "../deliver/send.ts";
import { EMPTY_ALLOW_LIST, parseAllowList } from "../domain/address/allow-list.ts";
import { parseTrace, traceText } from "../domain/task/trace.ts";
import type { AttemptResult } from "../domain/webhook/delivery.ts";
import { type WebhookRequest, signedRequest } from "../domain/webhook/webhook-request.ts";
import { type UrlPolicy, judgeWebhookUrl } from "../domain/webhook/webhook-url.ts";

export type Forwarded = Pick<AttemptResult, "httpStatus" | "error">;

// The time that a daemon gives a receiver unless its operator says otherwise.
const ANSWER_MS_MAX = 10_000;

/** The header in which a pingback carries the URL that its signature is over. */
const ORIGINAL_URL = "x-postbackd-original-url";

/**
 * Sends requests to a local receiver by the code that sends webhooks, so that they are the same on the wire: host and,
 * of a pingback, path apart. Each has a connection of its own: none is sent twice because a kept one had broken.
 */
export class Forwarder {
  readonly #to: URL;
  readonly #policy: UrlPolicy;
  readonly #resolver: Resolver;
  readonly #sender: Sender;

  constructor(to: URL, { clock, authorities }: Pick<SenderOptions, "clock" | "authorities">) {
    this.#to = to;
    this.#policy = policyFor(to);
    this.#resolver = new Resolver({ clock });
    this.#sender = new Sender({
      clock,
      resolver: this.#resolver,
      policy: () => this.#policy,
      timeoutMs: ANSWER_MS_MAX,
      ...(authorities !== undefined && { authorities }),
    });
    // From now on it keeps no connection.
    this.#sender.close();
  }

  /** Sends a request. Never rejects. */
  async send(
    request: WebhookRequest<SignedBytes>,
    delivery: Pick<TimelineDelivery, "kind" | "url" | "request">,
  ): Promise<Forwarded> {
    const verdict = judgeWebhookUrl(forwardUrl(this.#to, delivery), this.#policy);
    if (verdict.kind === "refused") return { httpStatus: null, error: verdict.reason };
    const original = delivery.kind === "pingback" ? { [ORIGINAL_URL]: delivery.url } : {};
    const headers = { ...request.headers, ...original };
    return this.#sender.send({ ...request, headers, target: verdict.target });
  }

  close(): void {
    this.#sender.abort();
    this.#resolver.close();
  }
}

/** The URL to send a webhook to: as it was given, with the query of a pingback behind it. */
export function forwardUrl(
  { origin, pathname, search }: URL,
  { kind, request }: Pick<TimelineDelivery, "kind" | "request">,
): string {
  const base = origin + pathname + search;
  const at = request.target.indexOf("?");
  if (kind === "postback" || at === -1) return base;
  return base + (search === "" ? "?" : "&") + request.target.slice(at + 1);
}

/**
 * Allows the one host that the developer has named, at any address; an invalid host is refused at the first attempt.
 */
function policyFor(to: URL): UrlPolicy {
  const parsed = parseAllowList([to.host]);
  const allow = parsed.kind === "allow-list" ? parsed.list : EMPTY_ALLOW_LIST;
  return { allow, ownNames: [], ownAddresses: [] };
}

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
 * The request of an attempt, made as the daemon makes it, from the same facts. The API shows the signatures of sent
 * attempts, but not of attempts without a connection, nor of old attempts with large bodies.
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
