import { createHash } from "node:crypto";

import { isSignedWith, type ReceivedWebhook } from "../kit/webhook-receiver.ts";
import type { Expectation } from "./ending-judge.ts";
import type { SeenCancel } from "./lease-judge.ts";

/** A webhook that arrived, and the receiver's answer. */
export interface Arrival extends Pick<
  ReceivedWebhook,
  "taskId" | "kind" | "attempt" | "receivedAt"
> {
  readonly status: 200 | 500;
}

/** A task that the daemon acknowledged. */
export interface PromisedTask {
  /** The key of its account. */
  readonly key: string;
  /** Null for tasks of workers. */
  readonly expected: Expectation | null;
}

const KINDS = ["postback", "pingback"] as const;

/**
 * What outlives every crash: all that the daemon promised and showed, and the webhooks that arrived. It is kept here,
 * in a process that is not killed.
 */
export class Ledger {
  readonly tasks = new Map<string, PromisedTask>();
  /** How many tasks each idempotency key stands for. */
  readonly promised = new Map<string, number>();
  readonly cancels = new Map<string, SeenCancel>();
  /** Tasks whose cancelling was acknowledged. */
  readonly cancelled = new Set<string>();
  /** Tasks that are completed for good: the envelope that showed it, or the result that a worker was thanked for. */
  readonly finished = new Map<string, string>();
  readonly collected = new Set<string>();
  /** Deliveries that were shown as delivered, by webhook-id. */
  readonly delivered = new Set<string>();
  readonly arrivals: Arrival[] = [];
  /** Everything that must never happen, in words. */
  readonly faults: string[] = [];
  readonly #owing = new Set<string>();
  /** The hash of what the first attempt signed, by delivery. */
  readonly #signed = new Map<string, string>();
  /** Deliveries that the receiver accepted. */
  readonly #accepted = new Set<string>();
  readonly #mayForget: boolean;
  #missing = 0;

  /** `mayForget`: ends that were told may be lost with their server; those tasks run again, and end at another time. */
  constructor({ mayForget = false }: { readonly mayForget?: boolean } = {}) {
    this.#mayForget = mayForget;
  }

  /** A task was accepted. */
  acknowledge(taskId: string, task: PromisedTask): void {
    if (this.tasks.has(taskId)) this.faults.push(`${taskId} was acknowledged twice`);
    this.tasks.set(taskId, task);
  }

  /** Nothing stops the task any more: it is to send a postback and a pingback. */
  owe(taskId: string): void {
    this.#owing.add(taskId);
    for (const kind of KINDS) if (!this.#accepted.has(`${taskId}-${kind}`)) this.#missing++;
  }

  /** Webhooks that are owed and that the receiver has not accepted. */
  get missing(): number {
    return this.#missing;
  }

  /**
   * Somebody asks to cancel a task; to be told again when that is acknowledged: from then on and before, nothing may be
   * sent.
   */
  cancel(taskId: string, cancel: SeenCancel): void {
    this.cancels.set(taskId, cancel);
    if (cancel.acknowledgedAt === null) return;
    this.cancelled.add(taskId);
    const isSent = KINDS.some((kind) => this.#signed.has(`${taskId}-${kind}`));
    if (isSent) this.faults.push(`${taskId} was cancelled after its webhook`);
  }

  /** A webhook of the account with that secret arrived and was answered with that status. */
  receive(
    webhook: ReceivedWebhook,
    { status, secret }: { readonly status: 200 | 500; readonly secret: string },
  ): void {
    const { taskId, kind, attempt, receivedAt } = webhook;
    this.arrivals.push({ taskId, kind, attempt, status, receivedAt });
    this.#check(webhook, secret);
    const delivery = `${taskId}-${kind}`;
    if (status !== 200 || this.#accepted.has(delivery)) return;
    this.#accepted.add(delivery);
    if (this.#owing.has(taskId)) this.#missing--;
  }

  #check(webhook: ReceivedWebhook, secret: string): void {
    const { taskId, kind, signed } = webhook;
    const delivery = `${taskId}-${kind}`;
    if (this.cancelled.has(taskId)) this.faults.push(`${delivery} came after the cancelling`);
    if (!isSignedWith(secret, webhook)) this.faults.push(`${delivery}: bad signature`);
    // The id stands in what is signed as it stands in the header, or the daemon mixed two tasks up.
    if (!signed.includes(kind === "postback" ? `"id":"${taskId}"` : taskId))
      this.faults.push(`${delivery} is another task's`);
    const hash = createHash("sha256").update(signed).digest("base64");
    const first = this.#signed.get(delivery);
    if (first === undefined) this.#signed.set(delivery, hash);
    else if (first !== hash && !this.#mayForget)
      this.faults.push(`${delivery} came again with another content`);
  }
}
