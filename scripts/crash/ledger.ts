import { createHash } from "node:crypto";

import { isSignedWith, type ReceivedWebhook } from "../webhook-receiver.ts";

/** What the receiver has seen, beside what was promised. */
export interface LedgerCount {
  /** Tasks that the daemon said it had accepted. */
  readonly acknowledged: number;
  /** Acknowledged tasks whose postback has not arrived. */
  readonly missing: number;
  readonly postbacks: number;
  /** Postbacks of a task whose postback had arrived before: allowed after a crash, "at least once". */
  readonly repeated: number;
}

/**
 * What outlives every crash: the ids that the daemon acknowledged, and the postbacks that arrived. Both are
 * kept here, in a process that is not killed.
 */
export class Ledger {
  readonly #secret: string;
  readonly #acknowledged = new Set<string>();
  /** The hash of the first body, by task. */
  readonly #arrived = new Map<string, string>();
  readonly #cancelled = new Set<string>();
  /** How many tasks each idempotency key stands for. */
  readonly #promised = new Map<string, number>();
  readonly #faults: string[] = [];
  #missing = 0;
  #postbacks = 0;

  constructor(secret: string) {
    this.#secret = secret;
  }

  acknowledge(taskId: string): void {
    if (this.#acknowledged.has(taskId)) this.#faults.push(`${taskId} was acknowledged twice`);
    this.#acknowledged.add(taskId);
    if (!this.#arrived.has(taskId)) this.#missing++;
  }

  /** A cancellation was acknowledged: from now on and before, nothing may be sent. */
  cancel(taskId: string): void {
    this.#cancelled.add(taskId);
    if (this.#arrived.has(taskId)) this.#faults.push(`${taskId} was cancelled after its postback`);
  }

  /** A post with an idempotency key was answered with so many tasks. */
  promise(key: string, tasks: number): void {
    this.#promised.set(key, tasks);
  }

  /** Notes what must never happen. */
  blame(fault: string): void {
    this.#faults.push(fault);
  }

  receive(webhook: ReceivedWebhook): void {
    const { taskId, body } = webhook;
    this.#postbacks++;
    if (this.#cancelled.has(taskId))
      this.#faults.push(`${taskId}: a postback after the cancelling`);
    if (!isSignedWith(this.#secret, webhook)) this.#faults.push(`${taskId}: bad signature`);
    // The id stands in the body as it stands in the header, or the daemon mixed two tasks up.
    if (!body.includes(`"id":"${taskId}"`)) this.#faults.push(`${taskId}: another task's body`);
    const hash = createHash("sha256").update(body).digest("base64");
    const first = this.#arrived.get(taskId);
    if (first === undefined) this.#arrive(taskId, hash);
    else if (first !== hash) this.#faults.push(`${taskId}: a repeated postback has another body`);
  }

  get count(): LedgerCount {
    return {
      acknowledged: this.#acknowledged.size,
      missing: this.#missing,
      postbacks: this.#postbacks,
      repeated: this.#postbacks - this.#arrived.size,
    };
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

  /** What must never happen, in words. */
  get faults(): readonly string[] {
    return this.#faults;
  }

  #arrive(taskId: string, hash: string): void {
    this.#arrived.set(taskId, hash);
    if (this.#acknowledged.has(taskId)) this.#missing--;
  }
}
