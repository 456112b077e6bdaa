import { HOST_WORDS, type HostWriter } from "../../domain/stats/work-counts.ts";
import type { Connection } from "./machine/connection.ts";
import { additions } from "./traffic-tally.ts";

export const ADD_TO_HOST = `
  INSERT INTO host_counts (account_seq, host, ${HOST_WORDS.join(", ")}) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (account_seq, host) DO UPDATE SET ${additions(HOST_WORDS)}`;

/** The host may never be sent to again. */
export const ERASE_EMPTY_HOST = `
  DELETE FROM host_counts
  WHERE account_seq = ? AND host = ? AND ${HOST_WORDS.map((word) => `${word} = 0`).join(" AND ")}`;

/** Writes what a batch changes, in its transaction. */
export function hostCountWriter(connection: Connection): HostWriter {
  const add = connection.prepare<[number, string, number, number, number]>(ADD_TO_HOST);
  const eraseEmpty = connection.prepare<[number, string]>(ERASE_EMPTY_HOST);

  return (accountSeq, host, { given_up, refused, retrying }) => {
    add.run(accountSeq, host, given_up, refused, retrying);
    if (Math.min(given_up, refused, retrying) < 0) eraseEmpty.run(accountSeq, host);
  };
}
