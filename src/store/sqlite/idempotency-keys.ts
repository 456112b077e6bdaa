import type { KeptAnswer, KeptAnswerQuery, TaskPost } from "../store.ts";
import type { Connection } from "./machine/connection.ts";

export const FIND_ANSWER = `
  SELECT body_hash, answer_text FROM idempotency_keys
  WHERE account_seq = @accountId AND key = @key AND erase_at >= @steadyAt`;

const KEEP_ANSWER = `
  INSERT INTO idempotency_keys (account_seq, key, body_hash, answer_text, erase_at)
  VALUES (@accountId, @key, @bodyHash, @answerText, @eraseAt)
  ON CONFLICT (account_seq, key) DO UPDATE
  SET body_hash = excluded.body_hash, answer_text = excluded.answer_text,
      erase_at = excluded.erase_at`;

interface AnswerRow {
  body_hash: string;
  answer_text: string;
}

/** The part of a post that concerns its idempotency key, inside the post's own operation. */
export function idempotencyWrites(connection: Connection) {
  const { findKeptAnswer } = idempotencyReads(connection);
  const keep = connection.prepare(KEEP_ANSWER);

  return {
    /** Finds the answer that was kept for the post's key; null when there is none. */
    find({ accountId, idempotency }: TaskPost): KeptAnswer | null {
      return idempotency === null ? null : findKeptAnswer({ accountId, ...idempotency });
    },

    /** Keeps the post's own answer. */
    keep({ accountId, idempotency }: TaskPost): void {
      if (idempotency !== null) keep.run({ ...idempotency, accountId });
    },
  };
}

/** The reads on idempotency keys. */
export function idempotencyReads(connection: Connection) {
  const find = connection.prepare<[object], AnswerRow>(FIND_ANSWER);

  return {
    findKeptAnswer({ accountId, key, steadyAt }: KeptAnswerQuery): KeptAnswer | null {
      const row = find.get({ accountId, key, steadyAt });
      return row === undefined ? null : { bodyHash: row.body_hash, answerText: row.answer_text };
    },
  };
}
