import { MINUTE_MS } from "../../domain/clock/duration.ts";
import {
  type QueuedTimes,
  earlier,
  oldestSince,
  waitedMs,
} from "../../domain/stats/time-series.ts";
import { isHeld } from "./holds.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";
import { ALL_ACCOUNTS } from "./traffic-tally.ts";

// Some rows for each account that ever posted. Tasks that are to start later are counted apart. With very many
// accounts, those with the most waiting tasks are sampled.
export const WAITING_MOST = `
  SELECT account_seq AS accountSeq, count AS queued, ${isHeld("account_seq")} AS isHeld FROM task_counts
  WHERE state = 'queued' AND count > 0
  ORDER BY count DESC
  LIMIT 1000`;

export const SUM_WAITING = `SELECT coalesce(sum(count), 0) FROM task_counts WHERE state = 'queued'`;

export const LONGEST_QUEUED = `
  SELECT created_at AS createdAt, start_at AS startAt FROM tasks INDEXED BY tasks_by_state
  WHERE account_seq = ? AND state = 'queued'
  ORDER BY created_at`;

export const RAISE_QUEUED = `
  INSERT INTO traffic (account_seq, step_ms, at, queued, oldest_ms)
  VALUES (@accountSeq, ${MINUTE_MS}, @at, @queued, @oldestMs)
  ON CONFLICT (account_seq, step_ms, at) DO UPDATE
  SET queued = max(queued, excluded.queued), oldest_ms = max(oldest_ms, excluded.oldest_ms)`;

interface WaitingRow {
  readonly accountSeq: number;
  readonly queued: number;
  readonly isHeld: 0 | 1;
}

export function queueSampleWrites(connection: Connection) {
  const reads = waitingReader(connection);
  const raise = connection.prepare<[object]>(RAISE_QUEUED);

  return {
    sampleQueues({ now }) {
      const at = now - (now % MINUTE_MS);
      let oldest: number | null = null;
      for (const { accountSeq, queued, isHeld: isAccountHeld } of reads.waitingMost()) {
        const since = reads.oldestOf(accountSeq);
        // Only the operator makes a held task wait.
        if (isAccountHeld === 0) oldest = earlier(oldest, since);
        raise.run({ accountSeq, at, queued, oldestMs: waitedMs(since, now) });
      }
      const queued = reads.sum();
      // Also of an empty queue: this row shows that a daemon ran.
      raise.run({ accountSeq: ALL_ACCOUNTS, at, queued, oldestMs: waitedMs(oldest, now) });
    },
  } satisfies Steps;
}

export function accountWaitingReads(connection: Connection) {
  return { findAccountOldestWaiting: waitingReader(connection).oldestOf };
}

export function allWaitingReads(connection: Connection) {
  const { waitingMost, oldestOf } = waitingReader(connection);

  return {
    findAnyOldestWaiting(_scope: null): number | null {
      const accounts = waitingMost().filter(({ isHeld: isAccountHeld }) => isAccountHeld === 0);
      return accounts.map(({ accountSeq }) => oldestOf(accountSeq)).reduce(earlier, null);
    },
  };
}

function waitingReader(connection: Connection) {
  const waitingMost = connection.prepare<[], WaitingRow>(WAITING_MOST);
  const sum = connection.prepare<[], number>(SUM_WAITING).pluck();
  const longestQueued = connection.prepare<[number], QueuedTimes>(LONGEST_QUEUED);

  return {
    waitingMost: () => waitingMost.all(),
    sum: () => sum.get() ?? 0,

    /** When the longest-waiting task that may run was queued; null when none waits. */
    oldestOf: (accountSeq: number) => oldestSince(longestQueued.iterate(accountSeq)),
  };
}
