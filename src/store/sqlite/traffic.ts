import { HOUR_MS, MINUTE_MS } from "../../domain/clock/duration.ts";
import { type Durations, addDurations } from "../../domain/stats/time-series.ts";
import { TRAFFIC_WORDS } from "../../domain/stats/traffic-tally.ts";
import { parseDurations } from "../sql/traffic.ts";
import { additions, toDurationText } from "./counts.ts";
import { type Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

export const NEXT_MINUTE = `
  SELECT account_seq AS accountId, at FROM traffic INDEXED BY traffic_by_age
  WHERE step_ms = ${MINUTE_MS} AND at < ?
  ORDER BY at
  LIMIT 1`;

const WITHIN = `
  account_seq = @accountId AND step_ms = ${MINUTE_MS} AND at >= @hour AND at < @until`;

export const FOLD_TRAFFIC = `
  INSERT INTO traffic
    (account_seq, step_ms, at, durations_text, queued, oldest_ms, ${TRAFFIC_WORDS.join(", ")})
  SELECT @accountId, ${HOUR_MS}, @hour, @durationsText, max(queued), max(oldest_ms),
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
  WHERE account_seq = @accountId AND step_ms = ${HOUR_MS} AND at = @hour`;

export const ERASE_FOLDED = `DELETE FROM traffic WHERE ${WITHIN}`;

// 16 hours of one account, or one hour of 16 accounts.
const FOLDED_ROWS_MAX = 1000;

export function trafficFoldWrites(connection: Connection) {
  const next = connection.prepare<[number], { accountId: number; at: number }>(NEXT_MINUTE);
  const findDurations = connection.prepare<[object], string>(FOLDED_DURATIONS).pluck();
  const fold = connection.prepare<[object]>(FOLD_TRAFFIC);
  const erase = connection.prepare<[object]>(ERASE_FOLDED);

  /** Rolls up the minutes of an account's hour; returns their number. */
  function foldHour(which: { accountId: number; hour: number; until: number }): number {
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
        folded += foldHour({ accountId: first.accountId, hour, until });
      }
      return "more";
    },
  } satisfies Steps;
}
