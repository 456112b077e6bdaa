import type { Config } from "../config/config.ts";
import type { Sender } from "../deliver/send.ts";
import { type Clock, wait } from "../domain/clock/clock.ts";
import { MINUTE_MS } from "../domain/clock/duration.ts";
import { IdGenerator } from "../domain/id.ts";
import type { Logger } from "../domain/log.ts";
import type { ObservedAttempt, Observer } from "../domain/observer.ts";
import type { FailingHost } from "../domain/stats/condition.ts";
import { type AttemptResult, decideDelivery } from "../domain/webhook/delivery.ts";
import {
  type HostCount,
  type OperatorEvent,
  eventBody,
  eventRequest,
} from "../domain/webhook/webhook-request.ts";
import { type UrlPolicy, judgeWebhookUrl } from "../domain/webhook/webhook-url.ts";

export interface EventSenderDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly sender: Pick<Sender, "send">;
  readonly urlPolicy: () => UrlPolicy;
  /** Waits before each retry, counted from the failure. */
  readonly retryAfterMs: readonly number[];
  readonly node: string;
  readonly target: Config["events"];
}

/** An event in progress; it keeps its target if the configuration changes. */
interface Pending {
  readonly event: OperatorEvent;
  readonly id: string;
  readonly body: string;
  /** Aborted when it is not to be attempted any more. */
  readonly end: AbortController;
  /** True when the receiver may take the condition for standing. */
  mayStand: boolean;
}

type Attempted = Pick<AttemptResult, "outcome" | "httpStatus" | "error"> & {
  readonly host: string | null;
};

// A receiver that is down for twenty minutes misses no event: no more than this can begin in that time.
const PENDING_MAX = 100;

/**
 * Sends the operator's events by the rules of webhooks: each attempt judges and resolves the URL and signs again, and
 * retries have the same schedule. They are kept in memory alone. Only the newest event of a condition is sent, after
 * the attempt in progress has ended. So no event overtakes another. No end is sent for a condition whose beginning
 * never arrived.
 */
export class EventSender {
  readonly #deps: EventSenderDeps;
  readonly #ids = new IdGenerator();
  /** Each with the promise of its end, the newest last. */
  readonly #pending = new Map<Pending, Promise<void>>();
  #target: Config["events"];
  #isDrained = false;
  /** True while events are dropped, which is logged once. */
  #isDropping = false;

  constructor(deps: EventSenderDeps) {
    this.#deps = deps;
    this.#target = deps.target;
  }

  /** Sends what comes, and what waits for a retry, there from now on. Returns true if that is another place. */
  aim(target: Config["events"]): boolean {
    const isOther = target.url !== this.#target.url;
    this.#target = target;
    return isOther;
  }

  /** Calls `lost` if the event is given up or dropped, but not when a newer event of the same condition replaces it. */
  tell(event: OperatorEvent, lost: () => void = () => {}): void {
    const { clock, log, node } = this.#deps;
    if (this.#target.url === null || this.#isDrained) return;
    const { type, status, subject } = event;
    const before = [...this.#pending.keys()].findLast((each) => isOfSame(each.event, event));
    // One that takes the place of another waits for no more than an attempt to end.
    if (this.#pending.size >= (before === undefined ? PENDING_MAX : 2 * PENDING_MAX)) {
      if (!this.#isDropping) log.warn({ type }, "events are dropped: too many wait for a retry");
      this.#isDropping = true;
      return lost();
    }
    this.#isDropping = false;
    const id = this.#ids.next(clock.now());
    log.debug({ id, type, status, subject }, "an event is sent");
    const body = eventBody(event, { id, node });
    const end = new AbortController();
    const pending: Pending = { event, id, body, end, mayStand: status === "ended" };
    const ended = this.#deliver(pending, before)
      .then((isLost) => (isLost ? lost() : undefined))
      .catch((err: unknown) => log.error({ err, type }, "an event could not be sent"))
      .finally(() => this.#pending.delete(pending));
    this.#pending.set(pending, ended);
  }

  /** Begins no more attempts. Those under way are the sender's. */
  drain(): void {
    if (!this.#isDrained && this.#pending.size > 0) {
      const types = [...this.#pending.keys()].map(({ event }) => event.type);
      this.#deps.log.warn({ types }, "the daemon stops: these events may not have been delivered");
    }
    this.#isDrained = true;
    for (const { end } of this.#pending.keys()) end.abort();
  }

  async #deliver(pending: Pending, before: Pending | undefined): Promise<boolean> {
    if (before !== undefined) {
      before.end.abort();
      await this.#pending.get(before);
      pending.mayStand = before.mayStand;
    }
    const { id, event, end } = pending;
    if (end.signal.aborted) return false;
    if (event.status === "ended" && !pending.mayStand) {
      this.#deps.log.debug(
        { id, type: event.type },
        "an end is not sent, because its beginning was not",
      );
      return false;
    }
    return this.#attemptAll(pending);
  }

  async #attemptAll(pending: Pending): Promise<boolean> {
    const { clock, log, retryAfterMs } = this.#deps;
    const { id, event, end } = pending;
    const { signal } = end;
    let retriesUsed = 0;
    for (let number = 1; !signal.aborted; number++) {
      const attempted = await this.#attempt(pending, number);
      if (attempted === null) return false;
      noteAttempt(pending, attempted);
      const { httpStatus: http_status, ...others } = attempted;
      const facts = { event: id, type: event.type, attempt: number, http_status, ...others };
      const endedAt = clock.now();
      const decision = decideDelivery(attempted.outcome, { endedAt, retriesUsed, retryAfterMs });
      if (decision.state === "delivered") {
        log.debug(facts, "an event was delivered");
        return false;
      }
      if (signal.aborted) return false;
      if (decision.state !== "scheduled") {
        log.warn(facts, "an event was not delivered, and is not sent again");
        return true;
      }
      log.info(facts, "an event was not delivered, and is sent again");
      retriesUsed = decision.retry;
      await wait(decision.dueAt - endedAt, { clock, signal });
    }
    return false;
  }

  /** Null if no target is configured any more. */
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

/** True for two events of one condition. */
function isOfSame(one: OperatorEvent, other: OperatorEvent): boolean {
  if (one.status === "happened" || other.status === "happened") return false;
  return one.type === other.type && one.subject === other.subject;
}

// A receiver that did not respond in time may have processed the event.
function noteAttempt(pending: Pending, { outcome }: Attempted): void {
  if (pending.event.status === "ended") pending.mayStand &&= outcome !== "delivered";
  else pending.mayStand ||= outcome === "delivered" || outcome === "timed_out";
}

// A receiver that is restarted is away for less; the second retry of a single webhook comes after six minutes.
const FAILING_MS = 5 * MINUTE_MS;
const FAILURES_MIN = 3;
const FORGOTTEN_MS = 60 * MINUTE_MS;
// The next attempt, which may have succeeded, may be another daemon's. The longest wait of the default is 15 minutes.
const FORGOTTEN_OF_SEVERAL_MS = 20 * MINUTE_MS;
// Those who post tasks name the hosts.
const HOSTS_MAX = 1000;

const GROUP_MS = 5 * MINUTE_MS;
const HOSTS_NAMED_MAX = 20;

interface Streak {
  readonly since: number;
  /** Monotonic. */
  readonly firstAt: number;
  readonly lastAt: number;
  readonly failures: number;
}

/** Webhooks that were given up, the hosts with the most of them first. */
export interface GivenUp {
  readonly count: number;
  /** Some of the hosts, if there are many. */
  readonly hosts: readonly HostCount[];
  readonly hostsInAll: number;
}

/** Follows how this node's attempts go: to which hosts they all fail, and how many webhooks are given up. */
export class ReceiverWatch implements Observer {
  readonly #clock: Clock;
  /** By host, the most recently tried host last: its attempts since its last success. */
  readonly #streaks = new Map<string, Streak>();
  readonly #givenUp = new Map<string, number>();
  /** When the first of the deliveries was given up, by the monotonic clock. */
  #givenUpAt = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  attempt({ host, outcome, state }: Pick<ObservedAttempt, "host" | "outcome" | "state">): void {
    // A refused URL is the poster's affair, and an interrupted attempt says nothing about the receiver.
    if (outcome === "refused" || outcome === "interrupted") return;
    if (outcome === "delivered") this.#streaks.delete(host);
    else this.#noteFailure(host);
    if (state === "given_up") this.#noteGivenUp(host);
  }

  /** The hosts to which every attempt has failed for some minutes. In a cluster they are forgotten sooner. */
  failing({ isAlone }: { readonly isAlone: boolean }): readonly FailingHost[] {
    const now = this.#clock.monotonic();
    this.#forget(now - (isAlone ? FORGOTTEN_MS : FORGOTTEN_OF_SEVERAL_MS));
    return [...this.#streaks].flatMap(([host, { failures, since, firstAt }]) =>
      failures >= FAILURES_MIN && now - firstAt >= FAILING_MS ? [{ host, failures, since }] : [],
    );
  }

  /** Takes what was given up: all of it, or once the first is some minutes old. Null when there is nothing to take. */
  takeGivenUp(when: "in time" | "at once"): GivenUp | null {
    if (this.#givenUp.size === 0) return null;
    if (when === "in time" && this.#clock.monotonic() - this.#givenUpAt < GROUP_MS) return null;
    const all = [...this.#givenUp].map(([host, count]) => ({ host, count }));
    this.#givenUp.clear();
    const count = all.reduce((sum, each) => sum + each.count, 0);
    const hosts = all.toSorted((a, b) => b.count - a.count).slice(0, HOSTS_NAMED_MAX);
    return { count, hosts, hostsInAll: all.length };
  }

  #noteFailure(host: string): void {
    const now = this.#clock.monotonic();
    const known = this.#streaks.get(host);
    const { since, firstAt, failures } = known ?? {
      since: this.#clock.now(),
      firstAt: now,
      failures: 0,
    };
    this.#streaks.delete(host);
    this.#streaks.set(host, { since, firstAt, lastAt: now, failures: failures + 1 });
    // Dead names of long ago keep no place from hosts that fail now.
    const [oldest] = this.#streaks.keys();
    if (this.#streaks.size > HOSTS_MAX && oldest !== undefined) this.#streaks.delete(oldest);
  }

  #noteGivenUp(host: string): void {
    if (this.#givenUp.size === 0) this.#givenUpAt = this.#clock.monotonic();
    const isKnown = this.#givenUp.has(host);
    // Hosts beyond that are counted together.
    const name = isKnown || this.#givenUp.size < HOSTS_MAX ? host : "others";
    this.#givenUp.set(name, (this.#givenUp.get(name) ?? 0) + 1);
  }

  #forget(before: number): void {
    for (const [host, { lastAt }] of this.#streaks) {
      if (lastAt < before) this.#streaks.delete(host);
    }
  }
}
