import { headerOf } from "../kit/http-messages.ts";
import type { ReceivedWebhook } from "../kit/webhook-receiver.ts";
import type { ForeignHmac } from "./foreign-hmac.ts";

/**
 * The ids of the tasks whose webhook does not carry, in `X-Signature` and in Standard Webhooks'
 * `webhook-signature`, what the foreign program makes of the bytes that were received.
 */
export function wronglySigned(
  webhooks: readonly ReceivedWebhook[],
  { hmac, secret }: { readonly hmac: ForeignHmac; readonly secret: string },
): readonly string[] {
  const plainKey = Buffer.from(secret, "utf8");
  const plain = hmac.sign(webhooks.map(({ signed }) => ({ key: plainKey, message: signed })));
  // `id.timestamp.body`, signed with the bytes that the secret's Base64 stands for; a pingback's body is empty.
  const standardKey = Buffer.from(secret.replace("whsec_", ""), "base64");
  const standardJobs = webhooks.map(({ head, body }) => {
    const start = `${headerOf(head, "webhook-id")}.${headerOf(head, "webhook-timestamp")}.`;
    return { key: standardKey, message: Buffer.concat([Buffer.from(start), body]) };
  });
  const standard = hmac.sign(standardJobs);
  const isRight = ({ head, signature }: ReceivedWebhook, i: number): boolean => {
    const standardBase64 = Buffer.from(standard[i] ?? "", "hex").toString("base64");
    const isStandard = headerOf(head, "webhook-signature") === `v1,${standardBase64}`;
    return isStandard && signature === `sha256=${plain[i]}`;
  };
  return webhooks.filter((webhook, i) => !isRight(webhook, i)).map(({ taskId }) => taskId);
}
