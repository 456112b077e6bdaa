import { Webhook, WebhookVerificationError } from "standardwebhooks";

/** A delivery as the library wants it. */
export interface StandardDelivery {
  readonly headers: Readonly<Record<string, string>>;
  /** Empty for a pingback. */
  readonly body: Buffer;
}

/** Whether the reference library of Standard Webhooks accepts a delivery, holding this secret. */
export function isAccepted(secret: string, { headers, body }: StandardDelivery): boolean {
  try {
    new Webhook(secret).verify(body, { ...headers });
    return true;
  } catch (error) {
    if (error instanceof WebhookVerificationError) return false;
    throw error;
  }
}
