import { headerOf } from "../kit/http-messages.ts";
import type { ReceivedWebhook } from "../kit/webhook-receiver.ts";
import type { ForeignHmac, HmacJob } from "./foreign-hmac.ts";

/**
 * The ids of the tasks whose webhook does not carry, in `X-Signature` and in Standard Webhooks'
 * `webhook-signature`, what the foreign program makes of the bytes that were received.
 */
export function wronglySigned(
  webhooks: readonly ReceivedWebhook[],
  { hmac, secret }: { readonly hmac: ForeignHmac; readonly secret: string },
): readonly string[] {
  const plain = hmac.sign(webhooks.map((webhook) => plainJob(webhook, secret)));
  const standard = hmac.sign(webhooks.map((webhook) => standardJob(webhook, secret)));
  return webhooks
    .filter(({ head, signature }, i) => {
      const standardBase64 = Buffer.from(standard[i] ?? "", "hex").toString("base64");
      const isPlain = signature === `sha256=${plain[i]}`;
      return !isPlain || headerOf(head, "webhook-signature") !== `v1,${standardBase64}`;
    })
    .map(({ taskId }) => taskId);
}

function plainJob({ signed }: ReceivedWebhook, secret: string): HmacJob {
  return { key: Buffer.from(secret, "utf8"), message: signed };
}

// `id.timestamp.body`, signed with the bytes that the secret's Base64 stands for; a pingback's body is empty.
function standardJob({ head, body }: ReceivedWebhook, secret: string): HmacJob {
  const key = Buffer.from(secret.replace("whsec_", ""), "base64");
  const [id, timestamp] = ["webhook-id", "webhook-timestamp"].map((name) => headerOf(head, name));
  return { key, message: Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]) };
}
