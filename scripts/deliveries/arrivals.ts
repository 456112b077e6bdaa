import { Durations, type Spread } from "../kit/durations.ts";
import {
  SignatureSample,
  readCompletedAt,
  type ReceivedWebhook,
  type SignatureCount,
} from "../kit/webhook-receiver.ts";

/**
 * What a measured task says of itself in its tag, so that whoever receives its postback can tell how late it is without
 * asking anybody.
 */
export type Tag =
  /** Posted while it is measured; `at` is when it was to be posted, in epoch milliseconds. */
  | { readonly kind: "fresh"; readonly at: number }
  /** A retry that was put into the file before; due so many milliseconds after the first of them. */
  | { readonly kind: "retry"; readonly at: number };

const TAG = /"tag":"(fresh|retry) (\d+(?:\.\d+)?)"/;

export function tagText({ kind, at }: Tag): string {
  return `${kind} ${at}`;
}

/** The arrivals at the receiver during a measurement. */
export interface ArrivalReport extends SignatureCount {
  /** Fresh tasks, from their completion to the first byte of their postback. */
  readonly fromCompletion: Spread;
  /** The same, from the moment at which they were to be posted. */
  readonly fromPost: Spread;
  /** Retries, from the time they were due to the first byte of their postback. */
  readonly retries: Spread;
  /** Fresh postbacks of a task whose postback had arrived before. */
  readonly repeated: number;
}

/** The part of all arrivals that is measured. */
export interface Measured {
  /** The tasks that were to be posted from this time on and before that one, in epoch milliseconds. */
  readonly from: number;
  readonly to: number;
  /** When the first of the retries in the file is due. */
  readonly retriesFrom: number;
}

// Of a retry that was put into the file: its first attempt failed before.
const RETRY_ATTEMPT = 2;

/** Counts webhooks as they arrive, and how late each is. */
export class Arrivals {
  readonly #signatures: SignatureSample;
  readonly #measured: Measured;
  readonly #ids = new Set<string>();
  readonly #fromCompletion = new Durations();
  readonly #fromPost = new Durations();
  readonly #retries = new Durations();
  #repeated = 0;

  constructor(secret: string, measured: Measured) {
    this.#signatures = new SignatureSample(secret);
    this.#measured = measured;
  }

  /** `arrivedAt` is when its first byte came, in epoch milliseconds. */
  add(webhook: ReceivedWebhook, arrivedAt: number): void {
    this.#signatures.take(webhook);
    const envelope = webhook.body.toString("latin1");
    const [, kind, atText] = TAG.exec(envelope) ?? [];
    const at = Number(atText);
    const { from, to, retriesFrom } = this.#measured;
    if (kind === "retry" && webhook.attempt === RETRY_ATTEMPT)
      this.#retries.add(arrivedAt - retriesFrom - at);
    if (kind !== "fresh" || at < from || at >= to) return;
    if (this.#ids.has(webhook.taskId)) {
      this.#repeated++;
      return;
    }
    this.#ids.add(webhook.taskId);
    this.#fromCompletion.add(arrivedAt - readCompletedAt(envelope));
    this.#fromPost.add(arrivedAt - at);
  }

  get counts(): { readonly fresh: number; readonly retries: number } {
    return { fresh: this.#ids.size, retries: this.#retries.count };
  }

  get report(): ArrivalReport {
    return {
      fromCompletion: this.#fromCompletion.spread,
      fromPost: this.#fromPost.spread,
      retries: this.#retries.spread,
      repeated: this.#repeated,
      ...this.#signatures.count,
    };
  }
}
