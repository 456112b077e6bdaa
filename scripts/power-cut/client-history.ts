import { z } from "zod";

import type { ReceivedWebhook } from "../kit/webhook-receiver.ts";

/** What a client or the receiver did or was told, while the daemon was recorded. */
export type HistoryEntry =
  /** A post was sent for the first time. */
  | {
      readonly kind: "post";
      readonly key: string;
      readonly body: string;
      readonly isToCancel: boolean;
      readonly sentAt: number;
    }
  | Told<{ readonly kind: "accepted"; readonly key: string; readonly ids: string }>
  /** `hasRun`: it was refused because the task had run before. */
  | Told<{ readonly kind: "cancelled"; readonly id: string; readonly hasRun: boolean }>
  | Told<{
      readonly kind: "finished";
      readonly id: string;
      /** The envelope. */
      readonly text: string;
      readonly isCollected: boolean;
    }>
  /** A delivery is on record as delivered; its webhook-id. */
  | Told<{ readonly kind: "delivered"; readonly webhookId: string }>
  | Told<{ readonly kind: "key-made"; readonly key: string }>
  | { readonly kind: "key-revocation"; readonly key: string; readonly sentAt: number }
  | Told<{ readonly kind: "key-revoked"; readonly key: string }>
  /** A webhook came and was answered. */
  | {
      readonly kind: "webhook";
      readonly webhook: ReceivedWebhook;
      readonly status: 200 | 500;
    };

/** What an answer of the daemon said; its X-Request-Id says when. */
type Told<What> = What & { readonly requestId: string };

const bytes = z.string().transform((text) => Buffer.from(text, "base64"));
const told = { requestId: z.string() };

const historyEntry: z.ZodType<HistoryEntry, unknown> = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("post"),
    key: z.string(),
    body: z.string(),
    isToCancel: z.boolean(),
    sentAt: z.number(),
  }),
  z.object({ ...told, kind: z.literal("accepted"), key: z.string(), ids: z.string() }),
  z.object({ ...told, kind: z.literal("cancelled"), id: z.string(), hasRun: z.boolean() }),
  z.object({
    ...told,
    kind: z.literal("finished"),
    id: z.string(),
    text: z.string(),
    isCollected: z.boolean(),
  }),
  z.object({ ...told, kind: z.literal("delivered"), webhookId: z.string() }),
  z.object({ ...told, kind: z.literal("key-made"), key: z.string() }),
  z.object({ kind: z.literal("key-revocation"), key: z.string(), sentAt: z.number() }),
  z.object({ ...told, kind: z.literal("key-revoked"), key: z.string() }),
  z.object({
    kind: z.literal("webhook"),
    status: z.literal([200, 500]),
    webhook: z.object({
      kind: z.enum(["postback", "pingback"]),
      taskId: z.string(),
      signed: bytes,
      signature: z.string(),
      attempt: z.number(),
      head: z.string(),
      body: bytes,
      receivedAt: z.number(),
    }),
  }),
]);

/** The entries as text, one line each. */
export function historyText(all: readonly HistoryEntry[]): string {
  return all.map((each) => `${JSON.stringify(each, bytesAsBase64)}\n`).join("");
}

/** Reads what {@link historyText} wrote. Throws at anything else. */
export function parseHistory(text: string): readonly HistoryEntry[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => historyEntry.parse(JSON.parse(line)));
}

// JSON.stringify calls toJSON before it asks here: a Buffer comes as what that made of it.
const bufferJson = z.object({ type: z.literal("Buffer"), data: z.array(z.number()) });

function bytesAsBase64(_key: string, value: unknown): unknown {
  const found = bufferJson.safeParse(value);
  return found.success ? Buffer.from(found.data.data).toString("base64") : value;
}
