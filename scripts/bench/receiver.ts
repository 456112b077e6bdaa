import { idTimeMs } from "../../src/domain/id.ts";
import { Durations, type Spread } from "../kit/durations.ts";
import { helperProcess } from "../kit/helper-process.ts";
import {
  SignatureSample,
  openReceiver,
  type ReceivedWebhook,
  type SignatureCount,
} from "../kit/webhook-receiver.ts";

/** The receiver's webhooks, and how long after the making of a task's id each arrived. */
export interface Arrivals extends Spread, SignatureCount {
  /** Different tasks whose webhook arrived. */
  readonly tasks: number;
  /** Webhooks of a task that had arrived before. */
  readonly repeated: number;
}

/** The webhooks to wait for. */
interface Wish {
  readonly tasks: number;
  /** They must be signed with it. */
  readonly secret: string;
  readonly withinMs: number;
}

class Receiver {
  #count: Count | null = null;

  /** Returns the URL for webhooks. */
  async open(): Promise<string> {
    const { url } = await openReceiver((webhook) => this.#count?.take(webhook));
    return url;
  }

  /** Counts from now on; settles when webhooks of so many tasks have arrived, or when the time is over. */
  async expect(wish: Wish): Promise<Arrivals> {
    const count = new Count(wish.secret, wish.tasks);
    this.#count = count;
    const timer = setTimeout(() => count.all.resolve(), wish.withinMs);
    await count.all.promise;
    clearTimeout(timer);
    return count.arrivals;
  }
}

class Count {
  readonly all = Promise.withResolvers<void>();
  readonly #expected: number;
  readonly #ids = new Set<string>();
  readonly #durations = new Durations();
  readonly #signatures: SignatureSample;

  constructor(secret: string, expected: number) {
    this.#expected = expected;
    this.#signatures = new SignatureSample(secret);
  }

  take(webhook: ReceivedWebhook): void {
    this.#signatures.take(webhook);
    this.#ids.add(webhook.taskId);
    this.#durations.add(webhook.receivedAt - idTimeMs(webhook.taskId));
    if (this.#ids.size === this.#expected) this.all.resolve();
  }

  get arrivals(): Arrivals {
    const [tasks, { webhooks, count }] = [this.#ids.size, this.#signatures];
    return { tasks, repeated: webhooks - tasks, ...count, ...this.#durations.spread };
  }
}

/** A receiver of webhooks in a process of its own. */
export class BenchReceiver extends helperProcess(import.meta, Receiver) {}
