import { z } from "zod";

import { idTimeMs } from "../../src/domain/id.ts";
import { Durations } from "../kit/durations.ts";
import { HelperProcess, answerMessages } from "../kit/helper-process.ts";
import { WebhookReceiver, isSignedWith, type ReceivedWebhook } from "../kit/webhook-receiver.ts";

const receiverOrder = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("open"), secret: z.string() }),
  z.object({ kind: z.literal("expect"), tasks: z.number(), withinMs: z.number() }),
]);

const opened = z.object({ url: z.string() });

const arrivals = z.object({
  /** Different tasks whose webhook arrived. */
  tasks: z.number(),
  /** Webhooks of a task that had arrived before. */
  repeated: z.number(),
  /** Signatures looked at: one in {@link VERIFIED_EVERY}. */
  verified: z.number(),
  badSignatures: z.number(),
  /** From the making of a task's id to the arrival of its webhook. */
  p50Ms: z.number(),
  p99Ms: z.number(),
});

/** What arrived at the receiver. */
export type Arrivals = Readonly<z.infer<typeof arrivals>>;

// Each takes 10 µs of a core that the daemon could use.
const VERIFIED_EVERY = 50;

/** A receiver of webhooks in a process of its own. */
export class BenchReceiver {
  readonly #helper: HelperProcess;
  /** Where webhooks are to be sent. */
  readonly url: string;

  private constructor(helper: HelperProcess, url: string) {
    this.#helper = helper;
    this.url = url;
  }

  /** `secret` is what webhooks must be signed with. */
  static async start(secret: string): Promise<BenchReceiver> {
    const helper = new HelperProcess(new URL(import.meta.url));
    const { url } = opened.parse(await helper.ask({ kind: "open", secret }));
    return new BenchReceiver(helper, url);
  }

  /** Counts from now on; settles when webhooks of so many tasks have arrived, or when the time is over. */
  async expect(tasks: number, { withinMs }: { readonly withinMs: number }): Promise<Arrivals> {
    return arrivals.parse(await this.#helper.ask({ kind: "expect", tasks, withinMs }));
  }

  [Symbol.dispose](): void {
    this.#helper[Symbol.dispose]();
  }
}

class Count {
  readonly #secret: string;
  readonly #expected: number;
  readonly #resolve: (arrivals: Arrivals) => void;
  readonly #ids = new Set<string>();
  readonly #latencies = new Durations();
  #webhooks = 0;
  #verified = 0;
  #badSignatures = 0;

  constructor(options: {
    readonly secret: string;
    readonly expected: number;
    readonly resolve: (arrivals: Arrivals) => void;
  }) {
    this.#secret = options.secret;
    this.#expected = options.expected;
    this.#resolve = options.resolve;
  }

  add(webhook: ReceivedWebhook): void {
    this.#webhooks++;
    this.#ids.add(webhook.taskId);
    this.#latencies.add(webhook.receivedAt - idTimeMs(webhook.taskId));
    if (this.#webhooks % VERIFIED_EVERY === 0) this.#verify(webhook);
    if (this.#ids.size === this.#expected) this.end();
  }

  /** Settles the expectation as it stands. */
  end(): void {
    this.#resolve({
      tasks: this.#ids.size,
      repeated: this.#webhooks - this.#ids.size,
      verified: this.#verified,
      badSignatures: this.#badSignatures,
      p50Ms: this.#latencies.quantile(0.5),
      p99Ms: this.#latencies.quantile(0.99),
    });
  }

  #verify(webhook: ReceivedWebhook): void {
    this.#verified++;
    if (!isSignedWith(this.#secret, webhook)) this.#badSignatures++;
  }
}

function answerOrders(): void {
  let secret = "";
  let count: Count | null = null;
  answerMessages(async (message) => {
    const order = receiverOrder.parse(message);
    if (order.kind === "open") {
      secret = order.secret;
      const receiver = await WebhookReceiver.open((webhook) => count?.add(webhook));
      return { url: receiver.url };
    }
    return new Promise<Arrivals>((resolve) => {
      const timer = setTimeout(() => count?.end(), order.withinMs);
      const settle = (report: Arrivals): void => {
        clearTimeout(timer);
        resolve(report);
      };
      count = new Count({ secret, expected: order.tasks, resolve: settle });
    });
  });
}

if (import.meta.main) answerOrders();
