import type { ClockReading } from "../../domain/clock/clock-reading.ts";
import type { Store } from "../store.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { each, type SetSteps } from "./steps.ts";

const FIND_READING = `
  SELECT wall_at AS "wallAt", steady_at AS "steadyAt", uptime_ms AS "uptimeMs", boot_id AS "bootId"
  FROM clock_readings`;

const KEEP_READING = `
  INSERT INTO clock_readings (one, wall_at, steady_at, uptime_ms, boot_id) VALUES (1, $1, $2, $3, $4)
  ON CONFLICT (one) DO UPDATE
  SET wall_at = excluded.wall_at, steady_at = excluded.steady_at,
      uptime_ms = excluded.uptime_ms, boot_id = excluded.boot_id`;

/**
 * Moves the reading too: once a step of the clock has moved what waits, the next start must not find that step again.
 */
const SHIFT_READING = `UPDATE clock_readings SET wall_at = wall_at + $1`;

const SHIFT_LINKS = `UPDATE sign_in_links SET expires_at = expires_at + $1`;

// The rows of a whole table are locked in the order of their numbers before they are changed: in any other order this
// and a step of another node would wait for each other.

/**
 * A task that has failed before waits for its next run; any other waits for the time that its poster asked for. All
 * times of a lease move, because the spans between them are durations.
 */
export const SHIFT_QUEUE = `
  WITH moved AS MATERIALIZED (
    SELECT task_seq FROM queue
    WHERE (state = 'delayed' AND start_at > $1 AND failures > 0) OR (lease_id IS NOT NULL AND lease_ending IS NULL)
    ORDER BY task_seq FOR UPDATE
  )
  UPDATE queue AS q
  SET start_at = CASE WHEN state = 'delayed' THEN start_at + $2 ELSE start_at END,
      claimed_at = CASE WHEN lease_ending IS NULL THEN claimed_at + $2 ELSE claimed_at END,
      deadline_at = CASE WHEN lease_ending IS NULL THEN deadline_at + $2 ELSE deadline_at END,
      lease_until = CASE WHEN lease_ending IS NULL THEN lease_until + $2 ELSE lease_until END
  FROM moved WHERE q.task_seq = moved.task_seq`;

/** Reads the whole partial index, which holds what is scheduled and nothing else. */
export const SHIFT_ATTEMPTS = `
  WITH moved AS MATERIALIZED (
    SELECT seq FROM outbox WHERE started_at IS NULL AND due_at > $1 ORDER BY seq FOR UPDATE
  )
  UPDATE outbox AS o SET due_at = due_at + $2 FROM moved WHERE o.seq = moved.seq`;

/** Reads as much as {@link SHIFT_ATTEMPTS}, but only at a start and after a step of the clock. */
export const HASTEN_ATTEMPTS = `
  WITH late AS MATERIALIZED (
    SELECT seq FROM outbox
    WHERE started_at IS NULL AND due_at > CASE WHEN retry = 0 THEN $1::bigint ELSE $2::bigint END
    ORDER BY seq FOR UPDATE
  )
  UPDATE outbox AS o SET due_at = CASE WHEN retry = 0 THEN $1::bigint ELSE $2::bigint END
  FROM late WHERE o.seq = late.seq`;

const END_SESSIONS = `DELETE FROM sessions`;
const END_LINKS = `DELETE FROM sign_in_links`;

export function clockWrites(sql: BatchSql) {
  function keep({ wallAt, steadyAt, uptimeMs, bootId }: ClockReading): void {
    sql.send(KEEP_READING, [wallAt, steadyAt, uptimeMs, bootId]);
  }

  function shiftTimes({ after, by }: { after: number; by: number }): Promise<number> {
    // The columns hold whole milliseconds.
    const step = Math.round(by);
    sql.send(SHIFT_QUEUE, [after, step]);
    const moved = sql.run(SHIFT_ATTEMPTS, [after, step]);
    sql.send(SHIFT_LINKS, [step]);
    sql.send(SHIFT_READING, [step]);
    return moved;
  }

  return {
    shiftTimes: each(shiftTimes),

    hastenAttempts: each(({ now, latest }) => sql.run(HASTEN_ATTEMPTS, [now, latest])),

    keepClockReading: each(async (reading) => keep(reading)),

    resumeClock: each(async ({ reading, stepMs, isElapsedKnown }) => {
      // Overdue times move back with the clock too: otherwise they would lie ahead, and move further when the clock is
      // corrected.
      const after = Math.min(reading.wallAt, reading.wallAt - stepMs);
      const moved = stepMs === 0 ? 0 : await shiftTimes({ after, by: stepMs });
      if (!isElapsedKnown) {
        sql.send(END_SESSIONS);
        sql.send(END_LINKS);
      }
      keep(reading);
      return moved;
    }),
  } satisfies SetSteps;
}

export function clockReads(sql: Sql) {
  return {
    async findClockReading() {
      return (await sql.get<ClockReading>(FIND_READING)) ?? null;
    },
  } satisfies Partial<Store>;
}
