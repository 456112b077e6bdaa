import { z } from "zod";

import { Durations } from "../kit/durations.ts";
import { isSignedWith, type ReceivedWebhook } from "../kit/webhook-receiver.ts";
import { readCompletedAt, readTag } from "./tag.ts";

/** Durations in milliseconds. */
export const spread = z.object({
  count: z.number(),
  p50Ms: z.number(),
  p99Ms: z.number(),
  maxMs: z.number(),
});

export const arrivalReport = z.object({
  /** Fresh tasks, from their completion to the first byte of their postback. */
  fromCompletion: spread,
  /** The same, from the moment at which they were to be posted. */
  fromPost: spread,
  /** Retries, from the time they were due to the first byte of their postback. */
  retries: spread,
  /** Fresh postbacks of a task whose postback had arrived before. */
  repeated: z.number(),
  /** Signatures looked at: one in {@link VERIFIED_EVERY}. */
  verified: z.number(),
  badSignatures: z.number(),
});

/** What arrived at the receiver while it was measured. */
export type ArrivalReport = Readonly<z.infer<typeof arrivalReport>>;

/** What of all that arrives is measured. */
export interface Measured {
  /** The tasks that were to be posted from this time on and before that one, in epoch milliseconds. */
  readonly from: number;
  readonly to: number;
  /** When the first of the retries in the file is due. */
  readonly retriesFrom: number;
}

/** One signature in so many is looked at: each takes 10 µs of a core that the daemon could use. */
export const VERIFIED_EVERY = 50;
// Of a retry that was put into the file: its first attempt failed before.
const RETRY_ATTEMPT = 2;

/** Counts webhooks as they arrive, and how late each is. */
export class Arrivals {
  readonly #secret: string;
  readonly #measured: Measured;
  readonly #ids = new Set<string>();
  readonly #fromCompletion = new Durations();
  readonly #fromPost = new Durations();
  readonly #retries = new Durations();
  #webhooks = 0;
  #repeated = 0;
  #verified = 0;
  #badSignatures = 0;

  constructor(secret: string, measured: Measured) {
    this.#secret = secret;
    this.#measured = measured;
  }

  /** `arrivedAt` is when its first byte came, in epoch milliseconds. */
  add(webhook: ReceivedWebhook, arrivedAt: number): void {
    if (++this.#webhooks % VERIFIED_EVERY === 0) this.#verify(webhook);
    const envelope = webhook.body.toString("latin1");
    const tag = readTag(envelope);
    if (tag?.kind === "retry") {
      if (webhook.attempt !== RETRY_ATTEMPT) return;
      this.#retries.add(arrivedAt - this.#measured.retriesFrom - tag.at);
    }
    if (tag?.kind !== "fresh") return;
    if (tag.at < this.#measured.from || tag.at >= this.#measured.to) return;
    if (this.#ids.has(webhook.taskId)) {
      this.#repeated++;
      return;
    }
    this.#ids.add(webhook.taskId);
    this.#fromCompletion.add(arrivedAt - readCompletedAt(envelope));
    this.#fromPost.add(arrivedAt - tag.at);
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
      verified: this.#verified,
      badSignatures: this.#badSignatures,
    };
  }

  #verify(webhook: ReceivedWebhook): void {
    this.#verified++;
    if (!isSignedWith(this.#secret, webhook)) this.#badSignatures++;
  }
}
