import { HOUR_MS, MINUTE_MS } from "../../domain/clock/duration.ts";
import { type Durations, addDurations } from "../../domain/stats/time-series.ts";
import { TRAFFIC_WORDS } from "../../domain/stats/traffic-tally.ts";
import { toTraffic, type TrafficRow } from "../common/traffic-row.ts";
import type { Traffic, TrafficQuery } from "../store.ts";
import { parseDurations, toDurationText } from "./durations.ts";
import { eraseSome } from "./erase-some.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";
import { additions, ALL_ACCOUNTS } from "./traffic-tally.ts";

export const NEXT_MINUTE = `
  SELECT account_seq AS accountSeq, at FROM traffic INDEXED BY traffic_by_age
  WHERE step_ms = ${MINUTE_MS} AND at < ?
  ORDER BY at
  LIMIT 1`;

const WITHIN = `
  account_seq = @accountSeq AND step_ms = ${MINUTE_MS} AND at >= @hour AND at < @until`;

export const FOLD_TRAFFIC = `
  INSERT INTO traffic
    (account_seq, step_ms, at, durations_text, queued, oldest_ms, ${TRAFFIC_WORDS.join(", ")})
  SELECT @accountSeq, ${HOUR_MS}, @hour, @durationsText, max(queued), max(oldest_ms),
    ${TRAFFIC_WORDS.map((column) => `sum(${column})`).join(", ")}
  FROM traffic
  WHERE ${WITHIN}
  ON CONFLICT (account_seq, step_ms, at) DO UPDATE
  SET ${additions(TRAFFIC_WORDS)}, durations_text = excluded.durations_text,
      queued = max(queued, excluded.queued), oldest_ms = max(oldest_ms, excluded.oldest_ms)`;

/** The durations of minutes, and of the hour that they are folded into. */
export const FOLDED_DURATIONS = `
  SELECT durations_text FROM traffic WHERE ${WITHIN}
  UNION ALL
  SELECT durations_text FROM traffic
  WHERE account_seq = @accountSeq AND step_ms = ${HOUR_MS} AND at = @hour`;

export const ERASE_FOLDED = `DELETE FROM traffic WHERE ${WITHIN}`;

/** Steps that ended before a time. */
export const OLD_TRAFFIC = `
  SELECT account_seq AS accountSeq, at FROM traffic INDEXED BY traffic_by_age
  WHERE step_ms = @stepMs AND at > @from AND at <= @to - @stepMs
  ORDER BY at
  LIMIT @max`;

export const ERASE_STEP = `
  DELETE FROM traffic WHERE account_seq = ? AND step_ms = ? AND at = ?`;

export const ERASE_HOST_TRAFFIC = eraseSome(
  "host_traffic",
  `INDEXED BY host_traffic_by_age WHERE at > @from AND at <= @to - ${HOUR_MS} ORDER BY at`,
  "account_seq, at, host",
);

export const ERASE_HOST_FAILURES = eraseSome(
  "host_failures",
  `INDEXED BY host_failures_by_age WHERE ended_at > @from AND ended_at < @to ORDER BY ended_at`,
  "account_seq, host",
);

export const SELECT_TRAFFIC = `
  SELECT at, step_ms AS stepMs, posted, completed, failed, cancelled, first_attempts AS firstAttempts,
    first_delivered AS firstDelivered, delivered, given_up AS givenUp, refused, queued,
    oldest_ms AS oldestMs, durations_text AS durationsText
  FROM traffic
  WHERE account_seq = @accountSeq AND step_ms = @stepMs AND at >= @from AND at < @to
  ORDER BY at`;

// 16 hours of one account, or one hour of 16 accounts.
const FOLDED_ROWS_MAX = 1000;

export function trafficFoldWrites(connection: Connection) {
  const next = connection.prepare<[number], { accountSeq: number; at: number }>(NEXT_MINUTE);
  const findDurations = connection.prepare<[object], string>(FOLDED_DURATIONS).pluck();
  const fold = connection.prepare<[object]>(FOLD_TRAFFIC);
  const erase = connection.prepare<[object]>(ERASE_FOLDED);

  /** Folds the minutes of an account's hour; answers how many there were. */
  function foldHour(which: { accountSeq: number; hour: number; until: number }): number {
    const durations: Durations = [];
    for (const text of findDurations.all(which)) addDurations(durations, parseDurations(text));
    fold.run({ ...which, durationsText: toDurationText(durations) });
    return erase.run(which).changes;
  }

  return {
    foldTraffic({ minutesBefore }) {
      for (let folded = 0; folded < FOLDED_ROWS_MAX;) {
        const first = next.get(minutesBefore);
        if (first === undefined) return "done";
        const hour = first.at - (first.at % HOUR_MS);
        const until = Math.min(hour + HOUR_MS, minutesBefore);
        folded += foldHour({ accountSeq: first.accountSeq, hour, until });
      }
      return "more";
    },
  } satisfies Steps;
}

/**
 * Erases the steps of traffic, of hosts' traffic, and the failures of hosts that lie in a span of time: up to `max` of
 * each.
 */
export function trafficErasure(connection: Connection): (due: ErasedSpan) => number {
  const oldSteps = connection.prepare<[object], { accountSeq: number; at: number }>(OLD_TRAFFIC);
  const eraseStep = connection.prepare<[number, number, number]>(ERASE_STEP);
  const hosts = connection.prepare<[object]>(ERASE_HOST_TRAFFIC);
  const failures = connection.prepare<[object]>(ERASE_HOST_FAILURES);

  function eraseSteps(due: ErasedSpan, stepMs: number): number {
    const steps = oldSteps.all({ ...due, stepMs });
    for (const { accountSeq, at } of steps) eraseStep.run(accountSeq, stepMs, at);
    return steps.length;
  }

  return (due) =>
    eraseSteps(due, MINUTE_MS) +
    eraseSteps(due, HOUR_MS) +
    hosts.run(due).changes +
    failures.run(due).changes;
}

/** The records that one step erases: those between two times, excluding both. */
export interface ErasedSpan {
  readonly from: number;
  readonly to: number;
  readonly max: number;
}

export function trafficReads(connection: Connection) {
  const steps = connection.prepare<[object], TrafficRow>(SELECT_TRAFFIC);

  return {
    // One snapshot: minutes may be folded between two separate reads.
    readTraffic: connection.transaction(({ scope, from, to }: TrafficQuery) => {
      const which = { accountSeq: scope ?? ALL_ACCOUNTS, from, to };
      return [HOUR_MS, MINUTE_MS].flatMap((stepMs) => steps.all({ ...which, stepMs }));
    }),
  };
}

/** Converts the rows. Done where they are used: 30,000 objects take long from one thread to another. */
export function sortTraffic(rows: readonly TrafficRow[]): Traffic {
  const sorted = rows.toSorted((one, other) => one.at - other.at);
  return toTraffic(sorted, parseDurations);
}
