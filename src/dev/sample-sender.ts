import type { Clock } from "../domain/clock/clock.ts";
import { DAY_MS } from "../domain/clock/duration.ts";
import { IdGenerator } from "../domain/id.ts";
import type { Task } from "../domain/task/task.ts";
import { type AttemptResult, type Attempt, type DeliveryKind } from "../domain/webhook/delivery.ts";
import { webhookRequest, type SendRequest } from "../domain/webhook/webhook-request.ts";
import {
  judgePingbackUrl,
  judgeWebhookUrl,
  type UrlPolicy,
} from "../domain/webhook/webhook-url.ts";
import type { Store } from "../store/store.ts";

export interface SampleParts {
  readonly store: Pick<Store, "findSecrets">;
  readonly clock: Clock;
  readonly sender: { send(request: SendRequest): Promise<AttemptResult> };
  readonly urlPolicy: () => UrlPolicy;
}

export interface SampleOrder {
  readonly url: string;
  readonly kind: DeliveryKind;
  readonly login: string;
}

export type SampleSent =
  | { readonly kind: "sent"; readonly taskId: string; readonly attempt: Attempt }
  /** `reason` is a sentence about the URL. */
  | { readonly kind: "refused"; readonly reason: string }
  | { readonly kind: "no account" };

const TAG = "sample";
const SAMPLES_MAX = 1000;
const KEPT_MS = 30 * DAY_MS;

/** Sends webhooks of tasks that never were. */
export class SampleSender {
  readonly #ids = new IdGenerator();
  readonly #parts: SampleParts;
  /** The logins of the last samples, by their tasks' ids. */
  readonly #logins = new Map<string, string>();

  constructor(parts: SampleParts) {
    this.#parts = parts;
  }

  async send({ url, kind, login }: SampleOrder): Promise<SampleSent> {
    const { store, clock, sender, urlPolicy } = this.#parts;
    const secrets = await store.findSecrets(login);
    if (secrets === null) return { kind: "no account" };
    const now = clock.now();
    const task = sampleTask(this.#ids.next(now), now);
    const policy = urlPolicy();
    const values = { id: task.id, tag: TAG };
    const verdict =
      kind === "postback"
        ? judgeWebhookUrl(url, policy)
        : judgePingbackUrl(url, { values, policy });
    if (verdict.kind === "refused") return verdict;
    const { target } = verdict;
    const facts = { kind, url: target.url, task, number: 1, startedAt: now, traceText: null };
    this.#note(task.id, login);
    const result = await sender.send({ ...webhookRequest({ ...facts, ...secrets }), target });
    const times = { number: 1, dueAt: now, startedAt: now, endedAt: clock.now() };
    return { kind: "sent", taskId: task.id, attempt: { ...result, ...times } };
  }

  /** The account whose secret signed the sample of this task; null if no recent sample has it. */
  loginOf(taskId: string): string | null {
    return this.#logins.get(taskId) ?? null;
  }

  #note(taskId: string, login: string): void {
    this.#logins.set(taskId, login);
    const [oldest] = this.#logins.keys();
    if (this.#logins.size > SAMPLES_MAX && oldest !== undefined) this.#logins.delete(oldest);
  }
}

function sampleTask(id: string, now: number): Task {
  return {
    id,
    state: "completed",
    statusCode: 20000,
    statusMessage: null,
    type: "echo",
    createdAt: now,
    startedAt: now,
    completedAt: now,
    expiresAt: now + KEPT_MS,
    runs: 1,
    dataText: JSON.stringify({ tag: TAG }),
    inputText: null,
    resultText: JSON.stringify({ sample: true }),
    errorText: null,
  };
}
