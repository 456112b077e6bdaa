import { createHash } from "node:crypto";

import { isSignedWith, type ReceivedWebhook } from "../kit/webhook-receiver.ts";

/** The counts of the receiver, beside the promises. */
export interface LedgerCount {
  /** Tasks that the daemon said it had accepted; each is to send a postback and a pingback. */
  readonly acknowledged: number;
  /** Webhooks of acknowledged tasks that the receiver has not accepted. */
  readonly missing: number;
  /** Webhooks that arrived, of both kinds. */
  readonly webhooks: number;
  /** Of these, those that the receiver answered with 500. */
  readonly failed: number;
}

/** A webhook that arrived, and the receiver's answer. */
export interface Arrival {
  readonly taskId: string;
  readonly kind: ReceivedWebhook["kind"];
  readonly attempt: number;
  readonly status: 200 | 500;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
}

const KINDS = ["postback", "pingback"] as const;

/**
 * What outlives every crash: the ids that the daemon acknowledged, and the webhooks that arrived. Both are
 * kept here, in a process that is not killed.
 */
export class Ledger {
  readonly #secret: string;
  readonly #acknowledged = new Set<string>();
  readonly #arrivals: Arrival[] = [];
  /** The hash of what the first attempt signed, by delivery. */
  readonly #signed = new Map<string, string>();
  /** Deliveries that the receiver accepted. */
  readonly #accepted = new Set<string>();
  readonly #cancelled = new Set<string>();
  /** How many tasks each idempotency key stands for. */
  readonly #promised = new Map<string, number>();
  readonly #faults: string[] = [];
  #missing = 0;
  #failed = 0;

  constructor(secret: string) {
    this.#secret = secret;
  }

  acknowledge(taskId: string): void {
    if (this.#acknowledged.has(taskId)) this.#faults.push(`${taskId} was acknowledged twice`);
    this.#acknowledged.add(taskId);
    for (const kind of KINDS) if (!this.#accepted.has(`${taskId}-${kind}`)) this.#missing++;
  }

  /** A cancellation was acknowledged: from now on and before, nothing may be sent. */
  cancel(taskId: string): void {
    this.#cancelled.add(taskId);
    const isSent = KINDS.some((kind) => this.#signed.has(`${taskId}-${kind}`));
    if (isSent) this.#faults.push(`${taskId} was cancelled after its webhook`);
  }

  /** A post with an idempotency key was answered with so many tasks. */
  promise(key: string, tasks: number): void {
    this.#promised.set(key, tasks);
  }

  /** Notes what must never happen. */
  blame(fault: string): void {
    this.#faults.push(fault);
  }

  /** A webhook arrived and was answered with that status. */
  receive(webhook: ReceivedWebhook, status: 200 | 500): void {
    const { taskId, kind, attempt, receivedAt } = webhook;
    this.#arrivals.push({ taskId, kind, attempt, status, receivedAt });
    this.#check(webhook);
    if (status === 200) this.#accept(webhook);
    else this.#failed++;
  }

  get count(): LedgerCount {
    return {
      acknowledged: this.#acknowledged.size,
      missing: this.#missing,
      webhooks: this.#arrivals.length,
      failed: this.#failed,
    };
  }

  get arrivals(): readonly Arrival[] {
    return this.#arrivals;
  }

  get acknowledged(): ReadonlySet<string> {
    return this.#acknowledged;
  }

  get cancelled(): ReadonlySet<string> {
    return this.#cancelled;
  }

  get promised(): ReadonlyMap<string, number> {
    return this.#promised;
  }

  /** Everything that must never happen, in words. */
  get faults(): readonly string[] {
    return this.#faults;
  }

  #check(webhook: ReceivedWebhook): void {
    const { taskId, kind, signed } = webhook;
    const delivery = `${taskId}-${kind}`;
    if (this.#cancelled.has(taskId)) this.#faults.push(`${delivery} came after the cancelling`);
    if (!isSignedWith(this.#secret, webhook)) this.#faults.push(`${delivery}: bad signature`);
    // The id stands in what is signed as it stands in the header, or the daemon mixed two tasks up.
    if (!signed.includes(kind === "postback" ? `"id":"${taskId}"` : taskId))
      this.#faults.push(`${delivery} is another task's`);
    const hash = createHash("sha256").update(signed).digest("base64");
    const first = this.#signed.get(delivery);
    if (first === undefined) this.#signed.set(delivery, hash);
    else if (first !== hash) this.#faults.push(`${delivery} came again with another content`);
  }

  #accept({ taskId, kind }: ReceivedWebhook): void {
    const delivery = `${taskId}-${kind}`;
    if (this.#accepted.has(delivery)) return;
    this.#accepted.add(delivery);
    if (this.#acknowledged.has(taskId)) this.#missing--;
  }
}
