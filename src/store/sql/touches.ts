import { onlyPostgres, onlySqlite } from "./statement.ts";
import { send, type UseCase } from "./use-case.ts";

/** Statements that note when rows were last used. A time never moves back. */
export type Touch = ReturnType<typeof touchOf>;

export function touchOf(row: {
  readonly table: string;
  readonly key: string;
  readonly keyType: "bigint" | "text";
  readonly time: string;
}) {
  const { table, key, keyType, time } = row;
  return {
    one: onlySqlite(`
      UPDATE ${table} SET ${time} = @time
      WHERE ${key} = @key AND (${time} IS NULL OR ${time} < @time)`),
    // In the order of their numbers, so that two batches do not wait for each other.
    set: onlyPostgres(`
      WITH used AS MATERIALIZED (
        SELECT t.seq, u.time
        FROM (
          SELECT key, max(time) AS time FROM unnest(@keys::${keyType}[], @times::bigint[]) AS a (key, time) GROUP BY key
        ) AS u JOIN ${table} AS t ON t.${key} = u.key
        WHERE t.${time} IS NULL OR t.${time} < u.time
        ORDER BY t.seq FOR NO KEY UPDATE OF t
      )
      UPDATE ${table} AS t SET ${time} = used.time FROM used WHERE t.seq = used.seq`),
  };
}

/** Notes times: on SQLite row by row, on PostgreSQL in one statement. */
export function* touch(
  { one, set }: Touch,
  uses: readonly { readonly key: string | number; readonly time: number }[],
): UseCase<void> {
  for (const use of uses) yield* send(one, { ...use });
  yield* send(set, { keys: uses.map(({ key }) => key), times: uses.map(({ time }) => time) });
}
