import { z } from "zod";

// JSON has no bytes; in memory they are those that came.
const bytes = z.codec(z.string(), z.instanceof(Buffer), {
  decode: (text) => Buffer.from(text, "base64"),
  encode: (buffer) => buffer.toString("base64"),
});
// Every answer of the daemon has an X-Request-Id, which says when it came.
const answered = { requestId: z.string() };

const historyEntry = z.discriminatedUnion("kind", [
  /** A post was sent for the first time. */
  z.object({
    kind: z.literal("post"),
    key: z.string(),
    body: z.string(),
    isToCancel: z.boolean(),
    sentAt: z.number(),
  }),
  z.object({ ...answered, kind: z.literal("accepted"), key: z.string(), ids: z.string() }),
  /** `hasRun`: it was refused because the task had run before. */
  z.object({ ...answered, kind: z.literal("cancelled"), id: z.string(), hasRun: z.boolean() }),
  /** `text` is the envelope. */
  z.object({
    ...answered,
    kind: z.literal("finished"),
    id: z.string(),
    text: z.string(),
    isCollected: z.boolean(),
  }),
  /** A delivery is on record as delivered; its webhook-id. */
  z.object({ ...answered, kind: z.literal("delivered"), webhookId: z.string() }),
  z.object({ ...answered, kind: z.literal("key-made"), key: z.string() }),
  z.object({ kind: z.literal("key-revocation"), key: z.string(), sentAt: z.number() }),
  z.object({ ...answered, kind: z.literal("key-revoked"), key: z.string() }),
  /** A webhook came and was answered. */
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

/** An action of a client or the receiver, or an answer to one, while the daemon was recorded. */
export type HistoryEntry = Readonly<z.infer<typeof historyEntry>>;

/** The entries as text, one line each. */
export function historyText(all: readonly HistoryEntry[]): string {
  return all.map((each) => `${JSON.stringify(historyEntry.encode(each))}\n`).join("");
}

/** Reads what {@link historyText} wrote. Throws at anything else. */
export function parseHistory(text: string): readonly HistoryEntry[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => historyEntry.parse(JSON.parse(line)));
}
