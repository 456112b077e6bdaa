import { toWorkCounts, type KeptCount, type WorkCounts } from "../../domain/stats/work-counts.ts";
import type { Scope } from "../store.ts";
import { eachDialect } from "./statement.ts";
import { all, type StoreUseCases, type UseCase } from "./use-case.ts";

/** Stands for all accounts together in the tables of sums. */
export const ALL_ACCOUNTS = 0;

export const SELECT_COUNTS = eachDialect({
  sqlite: `SELECT state AS word, count FROM task_counts WHERE account_seq = @accountId`,
  postgres: `
    SELECT word, sum(count)::bigint AS count FROM task_counts WHERE account_seq = @accountId GROUP BY word`,
});

// Some rows for each account that ever posted. On PostgreSQL account 0 stands for all of them together.
export const SUM_COUNTS = eachDialect({
  sqlite: `SELECT state AS word, sum(count) AS count FROM task_counts GROUP BY state`,
  postgres: `
    SELECT word, sum(count)::bigint AS count FROM task_counts WHERE account_seq > 0 GROUP BY word`,
});

/** Counts everything that belongs to an account, or to all. */
export function* countWork(scope: Scope): UseCase<WorkCounts> {
  const counts =
    scope === null
      ? all<KeptCount>(SUM_COUNTS)
      : all<KeptCount>(SELECT_COUNTS, { accountId: scope });
  return toWorkCounts(yield* counts);
}

export const workCountReads = { countWork } satisfies StoreUseCases;
