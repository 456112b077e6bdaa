import type { ReceivedWebhook } from "../kit/receiver.ts";
import type { Post } from "../soak/client.ts";

/** Every answer of the daemon has an X-Request-Id, which says when it came. */
interface Answered {
  readonly requestId: string;
}

/** An action of a client or the receiver, or an answer to one, while the daemon was recorded. */
export type HistoryEntry =
  /** Sent for the first time. */
  | (Pick<Post, "kind" | "key" | "tasks"> & { readonly sentAt: number })
  | (Answered & { readonly kind: "accepted"; readonly key: string; readonly ids: Post["ids"] })
  /** `hasRun`: it was refused because the task had run before. */
  | (Answered & { readonly kind: "cancelled"; readonly id: string; readonly hasRun: boolean })
  /** `text` is the envelope. */
  | (Answered & {
      readonly kind: "finished";
      readonly id: string;
      readonly text: string;
      readonly isCollected: boolean;
    })
  /** A delivery is on record as delivered; its webhook-id. */
  | (Answered & { readonly kind: "delivered"; readonly webhookId: string })
  | (Answered & { readonly kind: "key-made" | "key-revoked"; readonly key: string })
  | { readonly kind: "key-revocation"; readonly key: string; readonly sentAt: number }
  /** Came and was answered. */
  | { readonly kind: "webhook"; readonly webhook: ReceivedWebhook; readonly status: 200 | 500 };
