import { decideDelivery, type AttemptResult } from "../domain/delivery.ts";
import { taskEnvelope } from "../domain/envelope.ts";
import { signStandardWebhook, signWebhook } from "../domain/signature.ts";
import { judgeWebhookUrl, type UrlPolicy } from "../domain/webhook-url.ts";
import type { SendRequest, Sender } from "../net/send.ts";
import type { AttemptRef, ClaimedAttempt, Store } from "../store/store.ts";
import type { HealthRecord } from "./health-record.ts";
import { Lanes, type LaneLimits, type LaneShare } from "./lanes.ts";
import { persist, type PersistDeps } from "./persist.ts";

/** What of the store this dispatcher uses. */
export type DeliveryQueue = Pick<
  Store,
  "claimAttempts" | "recordAttempt" | "listLanes" | "listInFlight"
>;

export interface DeliveryDispatcherDeps extends PersistDeps {
  readonly store: DeliveryQueue;
  readonly sender: Sender;
  readonly urlPolicy: () => UrlPolicy;
  readonly limits: LaneLimits;
  /** Waits before each retry, counted from the failure. */
  readonly retryAfterMs: readonly number[];
  readonly health: Pick<HealthRecord, "noteAttempt">;
  /** The store can write no more: nothing that is sent from now on could be recorded. */
  readonly failed: (error: unknown) => void;
}

// Bodies held for sending; more are claimed when these have gone out. Large results must not fill the memory.
const BYTES_IN_FLIGHT_MAX = 64 * 1024 * 1024;

/**
 * Claims due attempts lane by lane, sends them, and records each with what follows from it.
 *
 *     due → claim (committed) → judge, resolve, sign, send → decide → record (committed) → …
 *
 * An attempt is in flight on disk before its first packet, and its end is on disk before its lane moves on:
 * a crash in between leaves it `interrupted`, to be sent again at once.
 */
export class DeliveryDispatcher {
  readonly #deps: DeliveryDispatcherDeps;
  readonly #lanes: Lanes;
  #isClaiming = false;
  #bytesInFlight = 0;
  #stopping = false;
  #waiters: (() => void)[] = [];

  constructor(deps: DeliveryDispatcherDeps) {
    this.#deps = deps;
    this.#lanes = new Lanes(deps.limits);
  }

  /** Records what an earlier process left in flight as interrupted, and learns what is scheduled. */
  async recover(): Promise<{ readonly interrupted: number }> {
    const { store } = this.#deps;
    const attempts = await store.listInFlight();
    await Promise.all(attempts.map((attempt) => this.#record(attempt, INTERRUPTED)));
    for (const { host, dueAt } of await store.listLanes()) {
      if (dueAt !== null) this.#lanes.noteDue(host, dueAt);
    }
    return { interrupted: attempts.length };
  }

  /** Tells that these hosts have an attempt due now. */
  wake(hosts: readonly string[]): void {
    const now = this.#deps.clock.now();
    for (const host of hosts) this.#lanes.noteDue(host, now);
    this.pump();
  }

  /** Starts whatever is due and has room. Called when something changed, and once a second. */
  pump(): void {
    if (this.#stopping || this.#isClaiming || this.#bytesInFlight > BYTES_IN_FLIGHT_MAX) return;
    const shares = this.#lanes.take(this.#deps.clock.now());
    if (shares.length === 0) return;
    this.#isClaiming = true;
    this.#claim(shares).catch(this.#deps.failed);
  }

  /** True when nothing is in flight and nothing is due. */
  isIdle(): boolean {
    return !this.#isBusy && this.#lanes.isIdle(this.#deps.clock.now());
  }

  /** Settles at the next moment when nothing is in flight. */
  async quiet(): Promise<void> {
    while (this.#isBusy) await new Promise<void>((resolve) => this.#waiters.push(resolve));
  }

  /** Claims no more. What is in flight goes on, within its deadline. */
  drain(): void {
    this.#stopping = true;
  }

  get #isBusy(): boolean {
    return this.#isClaiming || this.#lanes.inFlight > 0;
  }

  async #claim(shares: readonly LaneShare[]): Promise<void> {
    const { store, clock } = this.#deps;
    let settled = 0;
    try {
      const claim = (): ReturnType<DeliveryQueue["claimAttempts"]> =>
        store.claimAttempts({ lanes: shares, now: clock.now() });
      const { attempts, lanes } = await persist(claim, this.#deps);
      const started = countByHost(attempts);
      for (const share of shares) {
        const dueAt = lanes[settled]?.dueAt ?? null;
        this.#lanes.claimed(share, { started: started.get(share.host) ?? 0, dueAt });
        settled++;
      }
      for (const attempt of attempts) this.#start(attempt);
    } finally {
      // A claim that failed started nothing: what was set aside for it must not be waited for.
      for (const share of shares.slice(settled)) {
        this.#lanes.claimed(share, { started: 0, dueAt: null });
      }
      this.#isClaiming = false;
      this.#settled();
    }
    this.pump();
  }

  #start(attempt: ClaimedAttempt): void {
    const bytes = bytesOf(attempt);
    this.#bytesInFlight += bytes;
    this.#send(attempt)
      .then((result) => this.#record(attempt, result))
      .catch(this.#deps.failed)
      .finally(() => {
        this.#bytesInFlight -= bytes;
        this.#lanes.ended(attempt.host);
        this.#settled();
        this.pump();
      });
  }

  async #send(attempt: ClaimedAttempt): Promise<AttemptResult> {
    // Judged again at every attempt: the rules may be stricter now, and the row may have been tampered with.
    const verdict = judgeWebhookUrl(attempt.url, this.#deps.urlPolicy());
    if (verdict.kind === "refused") return toRefused(attempt.host, verdict.rule);
    const request = toRequest(attempt, this.#deps.clock.now());
    return this.#deps.sender.send({ ...request, target: verdict.target });
  }

  async #record(attempt: AttemptRef, result: AttemptResult): Promise<void> {
    const { store, clock, retryAfterMs, log } = this.#deps;
    const endedAt = clock.now();
    this.#noteHealth(attempt.host, result.outcome);
    const facts = { endedAt, retriesUsed: attempt.retry, retryAfterMs };
    const decision = decideDelivery(result.outcome, facts);
    const record = { attempt, result, endedAt, decision };
    await persist(() => store.recordAttempt(record), this.#deps);
    if (decision.state === "scheduled") this.#lanes.noteDue(attempt.host, decision.dueAt);
    if (result.outcome === "delivered") return;
    const { kind, host, number } = attempt;
    const { outcome, httpStatus, error } = result;
    log.info(
      { kind, host, number, outcome, httpStatus, error, next: decision.state },
      "attempt failed",
    );
  }

  // A refused URL is its poster's affair, and what was interrupted says nothing about the receiver.
  #noteHealth(host: string, outcome: AttemptResult["outcome"]): void {
    if (outcome === "refused" || outcome === "interrupted") return;
    this.#deps.health.noteAttempt(host, outcome === "delivered", this.#deps.clock.monotonic());
  }

  #settled(): void {
    if (this.#isBusy) return;
    for (const tell of this.#waiters.splice(0)) tell();
  }
}

const NO_PHASES = { dnsMs: null, connectMs: null, tlsMs: null, firstByteMs: null };
const NOTHING_HAPPENED = {
  httpStatus: null,
  error: null,
  address: null,
  phases: NO_PHASES,
  responseExcerpt: null,
  refusal: null,
};

// Whether the receiver got it nobody knows; that it may come twice is part of the contract (§5).
const INTERRUPTED: AttemptResult = {
  ...NOTHING_HAPPENED,
  outcome: "interrupted",
  error: "the daemon stopped during the attempt",
};

function toRefused(host: string, rule: string): AttemptResult {
  const refusal = { host, addresses: [], rule };
  return { ...NOTHING_HAPPENED, outcome: "refused", error: "the URL is refused", refusal };
}

function bytesOf({ task }: ClaimedAttempt): number {
  return (task.inputText?.length ?? 0) + (task.resultText?.length ?? 0);
}

function countByHost(attempts: readonly ClaimedAttempt[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { host } of attempts) counts.set(host, (counts.get(host) ?? 0) + 1);
  return counts;
}

/** The request of one attempt: body, and headers signed afresh (contract §5). */
function toRequest(attempt: ClaimedAttempt, now: number): Omit<SendRequest, "target"> {
  const { kind, url, task, number } = attempt;
  const isPostback = kind === "postback";
  const body = isPostback ? taskEnvelope(task) : null;
  const id = `${task.id}-${kind}`;
  const timestamp = Math.floor(now / 1000);
  const { webhookSecret: secret, webhookSecretNext: next } = attempt;
  const secrets = next === null ? [secret] : [secret, next];
  const message = body ?? url;
  const headers = {
    ...(isPostback ? { "content-type": "application/json" } : {}),
    "user-agent": "postbackd-webhooks/1",
    "x-signature": signWebhook(message, secret),
    ...(next === null ? {} : { "x-signature-next": signWebhook(message, next) }),
    "x-attempt": String(number),
    "webhook-id": id,
    "webhook-timestamp": String(timestamp),
    "webhook-signature": signStandardWebhook({ id, timestamp, body: body ?? "" }, secrets),
  };
  return { method: isPostback ? "POST" : "GET", headers, body };
}
