import type { KeptAnswer, Store, TaskPost } from "../store.ts";
import { RunAgain } from "./machine/batch.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";

const FIND_ANSWER = `
  SELECT body_hash AS "bodyHash", answer_text AS "answerText" FROM idempotency_keys
  WHERE account_seq = $1 AND key = $2 AND erase_at >= $3`;

/**
 * Finds the answers of posts: those that are kept, and those that were to be kept until some time before now. Nobody may
 * erase them until the batch has ended, because whoever erases one, or replaces it, counts its bytes off. In the order
 * of the keys, so that two batches do not wait for each other.
 */
const FIND_ANSWERS = `
  SELECT a.place::int, k.erase_at >= a.steady_at AS "isKept", k.body_hash AS "bodyHash",
    k.answer_text AS "answerText", octet_length(k.answer_text) AS bytes
  FROM unnest($1::bigint[], $2::text[], $3::bigint[]) WITH ORDINALITY AS a (account_seq, key, steady_at, place)
  JOIN idempotency_keys AS k ON k.account_seq = a.account_seq AND k.key = a.key
  ORDER BY k.account_seq, k.key FOR UPDATE OF k`;

/**
 * Answers the keys that it has kept. Another node may be keeping one of them: this waits for its commit, a few
 * milliseconds, and then leaves the other's answer as it is. In the order of the keys, so that two batches do not wait
 * for each other.
 */
const KEEP_ANSWERS = `
  INSERT INTO idempotency_keys AS k (account_seq, key, body_hash, answer_text, erase_at)
  SELECT account_seq, key, body_hash, answer_text, erase_at
  FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[])
    AS a (account_seq, key, body_hash, answer_text, erase_at)
  ORDER BY account_seq, key
  ON CONFLICT (account_seq, key) DO UPDATE
  SET body_hash = excluded.body_hash, answer_text = excluded.answer_text, erase_at = excluded.erase_at
  WHERE k.erase_at < $6
  RETURNING 1`;

/** The answer that there is for a key. */
export interface FoundAnswer {
  /** Null when it was to be kept until some time before now. */
  readonly kept: KeptAnswer | null;
  readonly bytes: number;
}

interface AnswerRow extends KeptAnswer {
  readonly place: number;
  readonly isKept: boolean;
  readonly bytes: number;
}

/** Finds the answer to the key of each post, by the post. */
export async function findAnswers(
  sql: Sql,
  posts: readonly TaskPost[],
): Promise<ReadonlyMap<TaskPost, FoundAnswer>> {
  const asked = posts.filter(({ idempotency }) => idempotency !== null);
  if (asked.length === 0) return new Map();
  const rows = await sql.all<AnswerRow>(FIND_ANSWERS, [
    asked.map(({ accountId }) => accountId),
    asked.map(({ idempotency }) => idempotency?.key ?? ""),
    asked.map(({ idempotency }) => idempotency?.steadyAt ?? 0),
  ]);
  return new Map(
    rows.flatMap(({ place, isKept, bodyHash, answerText, bytes }) => {
      const post = asked[place - 1];
      const kept = isKept ? { bodyHash, answerText } : null;
      return post === undefined ? [] : [[post, { kept, bytes }] as const];
    }),
  );
}

/**
 * Keeps the answers of posts with different keys, none of which has an answer that is still kept. Rejects with
 * {@link RunAgain} when another node has used one of them meanwhile: the next try finds its answer.
 */
export async function keepAnswers(sql: BatchSql, posts: readonly TaskPost[]): Promise<void> {
  const asked = posts.flatMap(({ accountId, idempotency }) =>
    idempotency === null ? [] : [{ accountId, ...idempotency }],
  );
  if (asked.length === 0) return;
  const kept = await sql.run(KEEP_ANSWERS, [
    asked.map(({ accountId }) => accountId),
    asked.map(({ key }) => key),
    asked.map(({ bodyHash }) => bodyHash),
    asked.map(({ answerText }) => answerText),
    asked.map(({ eraseAt }) => eraseAt),
    Math.max(...asked.map(({ steadyAt }) => steadyAt)),
  ]);
  if (kept < asked.length) throw new RunAgain();
}

export function idempotencyReads(sql: Sql) {
  return {
    async findKeptAnswer({ accountId, key, steadyAt }) {
      return (await sql.get<KeptAnswer>(FIND_ANSWER, [accountId, key, steadyAt])) ?? null;
    },
  } satisfies Partial<Store>;
}
