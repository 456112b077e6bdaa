import type { MessageServer } from "../kit/message-server.ts";
import { openReceiver, type ReceivedWebhook } from "../kit/webhook-receiver.ts";

/** A receiver that keeps the webhooks it gets. */
export interface WebhookInbox extends AsyncDisposable {
  readonly receiver: MessageServer;
  /** The arrived webhooks, in the order of their arrival. */
  readonly webhooks: readonly ReceivedWebhook[];
  /** Settles when so many have arrived in all, or with fewer when the time is over. */
  arrived(count: number, limit: { readonly withinMs: number }): Promise<void>;
}

export async function openInbox(): Promise<WebhookInbox> {
  const webhooks: ReceivedWebhook[] = [];
  let look = (): void => {};
  const receiver = await openReceiver((webhook) => {
    webhooks.push(webhook);
    look();
  });
  return {
    receiver,
    webhooks,
    async arrived(count, { withinMs }) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, withinMs);
      look = () => {
        if (webhooks.length >= count) resolve();
      };
      look();
      await promise;
      clearTimeout(timer);
    },
    [Symbol.asyncDispose]: () => receiver[Symbol.asyncDispose](),
  };
}
