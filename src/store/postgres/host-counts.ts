import type { HostTally } from "../../domain/stats/host-tally.ts";
import type { BatchSql } from "./machine/sql.ts";

const ADD_TO_HOSTS = `
  INSERT INTO host_counts AS c (account_seq, host, stripe, given_up, refused, retrying)
  SELECT account_seq, host, $1, given_up, refused, retrying
  FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[])
    AS a (account_seq, host, given_up, refused, retrying)
  ON CONFLICT (account_seq, host, stripe) DO UPDATE
  SET given_up = c.given_up + excluded.given_up, refused = c.refused + excluded.refused,
      retrying = c.retrying + excluded.retrying`;

/** Sends what a batch changes. */
export function sendHostCounts(sql: BatchSql, tally: HostTally): void {
  const accounts: number[] = [];
  const hosts: string[] = [];
  const givenUp: number[] = [];
  const refused: number[] = [];
  const retrying: number[] = [];
  tally.write((accountSeq, host, sums) => {
    accounts.push(accountSeq);
    hosts.push(host);
    givenUp.push(sums.given_up);
    refused.push(sums.refused);
    retrying.push(sums.retrying);
  });
  if (accounts.length === 0) return;
  sql.send(ADD_TO_HOSTS, [sql.stripe, accounts, hosts, givenUp, refused, retrying]);
}
