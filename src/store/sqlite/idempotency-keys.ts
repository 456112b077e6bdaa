import type { Idempotency, KeptAnswer, TaskPost } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";
import { ANSWER_OVERHEAD_BYTES, textBytes } from "./task-bytes.ts";

export const FIND_ANSWER = `
  SELECT body_hash AS bodyHash, answer_text AS answerText FROM idempotency_keys
  WHERE account_seq = @accountId AND key = @key AND erase_at >= @steadyAt`;

const KEEP_ANSWER = `
  INSERT INTO idempotency_keys (account_seq, key, body_hash, answer_text, erase_at)
  VALUES (@accountId, @key, @bodyHash, @answerText, @eraseAt)
  ON CONFLICT (account_seq, key) DO UPDATE
  SET body_hash = excluded.body_hash, answer_text = excluded.answer_text,
      erase_at = excluded.erase_at`;

/** The size of the answer that {@link KEEP_ANSWER} replaces: it was to be kept until some time before now. */
const SIZE_REPLACED = `
  SELECT octet_length(answer_text) + ${ANSWER_OVERHEAD_BYTES} FROM idempotency_keys
  WHERE account_seq = @accountId AND key = @key`;

/** The bytes of an answer that is kept; none where nothing is to be kept. */
export function answerBytes(idempotency: Pick<Idempotency, "answerText"> | null): number {
  return idempotency === null ? 0 : ANSWER_OVERHEAD_BYTES + textBytes(idempotency.answerText);
}

/** The part of a post that concerns its idempotency key, inside the post's own operation. */
export function idempotencyWrites(
  connection: Connection,
  { counts }: Pick<BatchChanges, "counts">,
) {
  const { findKeptAnswer } = idempotencyReads(connection);
  const keep = connection.prepare(KEEP_ANSWER);
  const sizeReplaced = connection.prepare<[object], number>(SIZE_REPLACED).pluck();

  return {
    /** Finds the answer that was kept for the post's key; null when there is none. */
    find({ accountId, idempotency }: TaskPost): KeptAnswer | null {
      return idempotency === null ? null : findKeptAnswer({ accountId, ...idempotency });
    },

    /** Keeps the post's own answer, and counts its bytes. */
    keep({ accountId, idempotency }: TaskPost): void {
      if (idempotency === null) return;
      const { key } = idempotency;
      counts.add(accountId, "bytes", -(sizeReplaced.get({ accountId, key }) ?? 0));
      keep.run({ ...idempotency, accountId });
      counts.add(accountId, "bytes", answerBytes(idempotency));
    },
  };
}

/** The reads on idempotency keys. */
export function idempotencyReads(connection: Connection) {
  const find = connection.prepare<[object], KeptAnswer>(FIND_ANSWER);

  return {
    findKeptAnswer: ({ accountId, key, steadyAt }) =>
      find.get({ accountId, key, steadyAt }) ?? null,
  } satisfies Steps;
}
