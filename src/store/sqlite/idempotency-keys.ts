import { ANSWER_OVERHEAD_BYTES, textBytes } from "../common/byte-sizes.ts";
import type { KeptAnswer, TaskPost } from "../store.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

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

/** The part of a post that concerns its idempotency key, inside the post's own operation. */
export function idempotencyWrites(connection: Connection) {
  const { findKeptAnswer } = idempotencyReads(connection);
  const keep = connection.prepare(KEEP_ANSWER);
  const sizeReplaced = connection.prepare<[object], number>(SIZE_REPLACED).pluck();

  return {
    /** Finds the answer that was kept for the post's key; null when there is none. */
    find({ accountId, idempotency }: TaskPost): KeptAnswer | null {
      return idempotency === null ? null : findKeptAnswer({ accountId, ...idempotency });
    },

    /** The bytes that the post's own answer adds when it is kept: without those of the one that it replaces. */
    addedBytes({ accountId, idempotency }: TaskPost): number {
      if (idempotency === null) return 0;
      const { key, answerText } = idempotency;
      const replaced = sizeReplaced.get({ accountId, key }) ?? 0;
      return ANSWER_OVERHEAD_BYTES + textBytes(answerText) - replaced;
    },

    /** Keeps the post's own answer. */
    keep({ accountId, idempotency }: TaskPost): void {
      if (idempotency !== null) keep.run({ ...idempotency, accountId });
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
