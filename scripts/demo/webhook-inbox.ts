import { WebhookReceiver, type ReceivedWebhook } from "../kit/webhook-receiver.ts";

/** A receiver that keeps the webhooks it gets. */
export class WebhookInbox {
  readonly #receiver: WebhookReceiver;
  readonly #webhooks: ReceivedWebhook[];
  readonly #arrivals: EventTarget;

  private constructor(parts: {
    readonly receiver: WebhookReceiver;
    readonly webhooks: ReceivedWebhook[];
    readonly arrivals: EventTarget;
  }) {
    this.#receiver = parts.receiver;
    this.#webhooks = parts.webhooks;
    this.#arrivals = parts.arrivals;
  }

  static async open(): Promise<WebhookInbox> {
    const webhooks: ReceivedWebhook[] = [];
    const arrivals = new EventTarget();
    const receiver = await WebhookReceiver.open((webhook) => {
      webhooks.push(webhook);
      arrivals.dispatchEvent(new Event("arrival"));
    });
    return new WebhookInbox({ receiver, webhooks, arrivals });
  }

  get port(): number {
    return this.#receiver.port;
  }

  get url(): string {
    return this.#receiver.url;
  }

  /** What has arrived, in the order it did. */
  get webhooks(): readonly ReceivedWebhook[] {
    return this.#webhooks;
  }

  /** Settles when so many have arrived in all, or with fewer when the time is over. */
  arrived(count: number, { withinMs }: { readonly withinMs: number }): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => settle(), withinMs);
      const look = (): void => {
        if (this.#webhooks.length >= count) settle();
      };
      const settle = (): void => {
        clearTimeout(timer);
        this.#arrivals.removeEventListener("arrival", look);
        resolve();
      };
      this.#arrivals.addEventListener("arrival", look);
      look();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#receiver[Symbol.asyncDispose]();
  }
}
