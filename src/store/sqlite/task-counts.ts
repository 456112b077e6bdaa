import { openTasksOf, type AccountUsage } from "../../domain/account/quota.ts";
import {
  type CountWriter,
  type CountedWord,
  type KeptCount,
  toTaskCounts,
  toWorkCounts,
} from "../../domain/stats/work-counts.ts";
import type { Connection } from "./machine/connection.ts";

export const ADD_TO_COUNT = `
  INSERT INTO task_counts (account_seq, state, count) VALUES (?, ?, ?)
  ON CONFLICT (account_seq, state) DO UPDATE SET count = count + excluded.count`;

export const SELECT_COUNTS = `SELECT state AS word, count FROM task_counts WHERE account_seq = ?`;

// Runs once in a batch for each account that posts: one row, so it costs little more than the look-ups.
export const SELECT_USAGE = `
  SELECT coalesce(sum(count) FILTER (WHERE state = 'bytes'), 0) AS bytes,
    coalesce(sum(count) FILTER (WHERE state <> 'bytes'), 0) AS openTasks
  FROM task_counts
  WHERE account_seq = ? AND state IN ('queued', 'delayed', 'running', 'bytes')`;

// Some rows for each account that ever posted.
export const SUM_COUNTS = `SELECT state AS word, sum(count) AS count FROM task_counts GROUP BY state`;

/** Writes what a batch changes, in its transaction. */
export function countWriter(connection: Connection): CountWriter {
  const addToCount = connection.prepare<[number, CountedWord, number]>(ADD_TO_COUNT);

  return {
    add: (accountSeq, word, count) => void addToCount.run(accountSeq, word, count),
  };
}

/** Reads the usage of an account as the batch found it. */
export function usageReader(connection: Connection): (accountSeq: number) => AccountUsage {
  const select = connection.prepare<[number], AccountUsage>(SELECT_USAGE);
  return (accountSeq) => select.get(accountSeq) ?? { bytes: 0, openTasks: 0 };
}

export function taskCountReads(connection: Connection) {
  const select = connection.prepare<[number], KeptCount>(SELECT_COUNTS);

  return {
    /** Counts the account's tasks in each state as clients see it. */
    countTasks: (accountSeq: number) => toTaskCounts(toWorkCounts(select.all(accountSeq))),

    countAccountWork: (accountSeq: number) => toWorkCounts(select.all(accountSeq)),

    findUsage(accountSeq: number): AccountUsage {
      const counts = toWorkCounts(select.all(accountSeq));
      return { bytes: counts.bytes, openTasks: openTasksOf(counts) };
    },
  };
}

/** All accounts together: it goes through all of them. */
export function allCountReads(connection: Connection) {
  const sum = connection.prepare<[], KeptCount>(SUM_COUNTS);

  return {
    countAllWork: (_scope: null) => toWorkCounts(sum.all()),
  };
}
