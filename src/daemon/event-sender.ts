import type { Config } from "../config/config.ts";
import type { Clock } from "../domain/clock/clock.ts";
import { wait } from "../domain/clock/wait.ts";
import { IdGenerator } from "../domain/id.ts";
import type { Logger } from "../domain/log.ts";
import { decideDelivery, type AttemptResult } from "../domain/webhook/delivery.ts";
import { eventBody, eventRequest, type OperatorEvent } from "../domain/webhook/operator-event.ts";
import { judgeWebhookUrl, type UrlPolicy } from "../domain/webhook/webhook-url.ts";
import type { Sender } from "../net/send.ts";

export interface EventSenderDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly sender: Pick<Sender, "send">;
  readonly urlPolicy: () => UrlPolicy;
  /** Waits before each retry, counted from the failure. */
  readonly retryAfterMs: readonly number[];
  /** The name of this daemon. */
  readonly node: string;
  /** Where events go, and what signs them. */
  readonly target: Config["events"];
}

/** An event on its way, whatever becomes of the target meanwhile. */
interface Pending {
  readonly type: OperatorEvent["type"];
  readonly id: string;
  readonly body: string;
}

/** How an attempt ended, and the host that it went to. */
type Attempted = Pick<AttemptResult, "outcome" | "httpStatus" | "error"> & {
  readonly host: string | null;
};

// A receiver that is away for twenty minutes has them all; there is no more than this to tell in that time.
const PENDING_MAX = 100;

/**
 * Sends the operator's events by the rules of webhooks: judged, resolved and signed anew at every attempt, and retried
 * as long. They are kept in memory alone.
 */
export class EventSender {
  readonly #deps: EventSenderDeps;
  readonly #ids = new IdGenerator();
  readonly #end = new AbortController();
  #target: Config["events"];
  #pending = 0;
  /** True while events are dropped, which is logged once. */
  #isDropping = false;

  constructor(deps: EventSenderDeps) {
    this.#deps = deps;
    this.#target = deps.target;
  }

  /** Sends what comes, and what waits for a retry, there from now on. Answers whether that is another place. */
  aim(target: Config["events"]): boolean {
    const isOther = target.url !== this.#target.url;
    this.#target = target;
    return isOther;
  }

  /** Sends an event, unless nobody wants to be told or there are too many already. */
  tell(event: OperatorEvent): void {
    const { clock, log, node } = this.#deps;
    if (this.#target.url === null || this.#end.signal.aborted) return;
    const { type } = event;
    if (this.#pending >= PENDING_MAX) {
      if (!this.#isDropping) log.warn({ type }, "events are dropped: too many wait for a retry");
      this.#isDropping = true;
      return;
    }
    this.#isDropping = false;
    this.#pending++;
    const id = this.#ids.next(clock.now());
    log.debug({ id, type, status: event.status, subject: event.subject }, "an event is told");
    void this.#deliver({ type, id, body: eventBody(event, { id, node }) })
      .catch((err: unknown) => log.error({ err, type }, "an event could not be sent"))
      .finally(() => this.#pending--);
  }

  /** Begins no more attempts. Those under way are the sender's. */
  drain(): void {
    this.#end.abort();
  }

  async #deliver(event: Pending): Promise<void> {
    const { clock, log, retryAfterMs } = this.#deps;
    const { signal } = this.#end;
    let retriesUsed = 0;
    for (let number = 1; ; number++) {
      const attempted = await this.#attempt(event, number);
      if (attempted === null || signal.aborted) return;
      const facts = { id: event.id, type: event.type, number, ...attempted };
      const endedAt = clock.now();
      const decision = decideDelivery(attempted.outcome, { endedAt, retriesUsed, retryAfterMs });
      if (decision.state === "delivered") return log.debug(facts, "an event was delivered");
      if (decision.state !== "scheduled") {
        return log.warn(facts, "an event was not delivered, and is not sent again");
      }
      log.info(facts, "an event was not delivered, and is sent again");
      retriesUsed = decision.retry;
      await wait(decision.dueAt - endedAt, { clock, signal });
      if (signal.aborted) return;
    }
  }

  /** Null when nobody wants to be told any more. */
  async #attempt({ id, body }: Pending, number: number): Promise<Attempted | null> {
    const { clock, urlPolicy, sender } = this.#deps;
    const { url, secret } = this.#target;
    if (url === null || secret === null) return null;
    const verdict = judgeWebhookUrl(url, urlPolicy());
    if (verdict.kind === "refused") {
      return { outcome: "refused", httpStatus: null, error: verdict.reason, host: null };
    }
    const { target } = verdict;
    const request = eventRequest(body, { id, secret, number, startedAt: clock.now() });
    const { outcome, httpStatus, error } = await sender.send({ ...request, target });
    return { outcome, httpStatus, error, host: target.host };
  }
}
