import type { AccountUsage } from "../../domain/account/quota.ts";
import {
  type CountTally,
  type CountedWord,
  type HostTally,
} from "../../domain/stats/work-counts.ts";
import { ALL_ACCOUNTS } from "../sql/work-counts.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";

export const ADD_TO_COUNTS = `
  INSERT INTO task_counts AS c (account_seq, word, stripe, count)
  SELECT account_seq, word, $1, count FROM unnest($2::bigint[], $3::text[], $4::bigint[]) AS a (account_seq, word, count)
  ON CONFLICT (account_seq, word, stripe) DO UPDATE SET count = c.count + excluded.count`;

const SELECT_USAGE = `
  SELECT account_seq AS "accountId",
    coalesce(sum(count) FILTER (WHERE word = 'bytes'), 0)::bigint AS bytes,
    coalesce(sum(count) FILTER (WHERE word <> 'bytes'), 0)::bigint AS "openTasks"
  FROM task_counts
  WHERE account_seq = ANY($1::bigint[]) AND word IN ('queued', 'delayed', 'running', 'bytes')
  GROUP BY account_seq`;

/** How much data all accounts have, in a statement: a row for each stripe. */
export const SUM_BYTES = `
  (SELECT coalesce(sum(count), 0)::bigint FROM task_counts WHERE account_seq = ${ALL_ACCOUNTS} AND word = 'bytes')`;

/** Sends what a batch changes. */
export function sendCounts(sql: BatchSql, tally: CountTally, changed: Set<number>): void {
  const adds: { accounts: number[]; words: CountedWord[]; counts: number[] } = {
    accounts: [],
    words: [],
    counts: [],
  };
  let bytes = 0;
  tally.write(
    {
      add(accountId, word, count) {
        adds.accounts.push(accountId);
        adds.words.push(word);
        adds.counts.push(count);
        if (word === "bytes") bytes += count;
      },
    },
    changed,
  );
  if (bytes !== 0) {
    adds.accounts.push(ALL_ACCOUNTS);
    adds.words.push("bytes");
    adds.counts.push(bytes);
  }
  if (adds.accounts.length > 0) {
    sql.send(ADD_TO_COUNTS, [sql.stripe, adds.accounts, adds.words, adds.counts]);
  }
}

/** Reads the usage of accounts as it is committed; an account that has never posted has none. */
export async function readUsage(
  sql: Sql,
  accountIds: readonly number[],
): Promise<ReadonlyMap<number, AccountUsage>> {
  const rows = await sql.all<AccountUsage & { accountId: number }>(SELECT_USAGE, [accountIds]);
  return new Map(rows.map(({ accountId, bytes, openTasks }) => [accountId, { bytes, openTasks }]));
}

const ADD_TO_HOSTS = `
  INSERT INTO host_counts AS c (account_seq, host, stripe, given_up, refused, retrying)
  SELECT account_seq, host, $1, given_up, refused, retrying
  FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[])
    AS a (account_seq, host, given_up, refused, retrying)
  ON CONFLICT (account_seq, host, stripe) DO UPDATE
  SET given_up = c.given_up + excluded.given_up, refused = c.refused + excluded.refused,
      retrying = c.retrying + excluded.retrying`;

const IS_EMPTY = `sum(given_up) = 0 AND sum(refused) = 0 AND sum(retrying) = 0`;

/**
 * Erases the rows of hosts of which nothing is left to count: they may never be sent to again. The stripes' rows are
 * negative and positive, and only together nothing. A row that another batch is just changing is left out: where the
 * others together are nothing, they may go without it.
 */
export const ERASE_EMPTY_HOSTS = `
  WITH empty AS (
    SELECT account_seq, host FROM host_counts GROUP BY account_seq, host HAVING ${IS_EMPTY} LIMIT 1000
  ), locked AS MATERIALIZED (
    SELECT c.* FROM host_counts AS c JOIN empty AS e ON e.account_seq = c.account_seq AND e.host = c.host
    FOR UPDATE OF c SKIP LOCKED
  )
  DELETE FROM host_counts AS c
  USING (SELECT account_seq, host FROM locked GROUP BY account_seq, host HAVING ${IS_EMPTY}) AS e, locked AS l
  WHERE l.account_seq = e.account_seq AND l.host = e.host
    AND c.account_seq = l.account_seq AND c.host = l.host AND c.stripe = l.stripe`;

/** Sends what a batch changes. */
export function sendHostCounts(sql: BatchSql, tally: HostTally): void {
  const accounts: number[] = [];
  const hosts: string[] = [];
  const givenUp: number[] = [];
  const refused: number[] = [];
  const retrying: number[] = [];
  tally.write((accountId, host, sums) => {
    accounts.push(accountId);
    hosts.push(host);
    givenUp.push(sums.given_up);
    refused.push(sums.refused);
    retrying.push(sums.retrying);
  });
  if (accounts.length === 0) return;
  sql.send(ADD_TO_HOSTS, [sql.stripe, accounts, hosts, givenUp, refused, retrying]);
}
