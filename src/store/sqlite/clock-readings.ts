import type { ClockReading } from "../../domain/clock/clock-reading.ts";
import { attemptScheduleWrites } from "./attempt-schedule.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

const FIND_READING = `
  SELECT wall_at AS wallAt, steady_at AS steadyAt, uptime_ms AS uptimeMs, boot_id AS bootId
  FROM clock_readings`;

const KEEP_READING = `
  INSERT INTO clock_readings (one, wall_at, steady_at, uptime_ms, boot_id)
  VALUES (1, @wallAt, @steadyAt, @uptimeMs, @bootId)
  ON CONFLICT (one) DO UPDATE
  SET wall_at = excluded.wall_at, steady_at = excluded.steady_at,
      uptime_ms = excluded.uptime_ms, boot_id = excluded.boot_id`;

/**
 * Moves the reading too: once a step of the clock has moved what waits, the next start must not find that step again.
 */
const SHIFT_READING = `UPDATE clock_readings SET wall_at = wall_at + @by`;

export const SHIFT_LINKS = `UPDATE sign_in_links SET expires_at = expires_at + @by`;

const END_SESSIONS = `DELETE FROM sessions`;
const END_LINKS = `DELETE FROM sign_in_links`;

/** The writes that follow the machine's clock. Each runs inside the transaction of its batch. */
export function clockWrites(connection: Connection) {
  const keep = connection.prepare(KEEP_READING);
  const shiftReading = connection.prepare(SHIFT_READING);
  const shiftLinks = connection.prepare(SHIFT_LINKS);
  const endSessions = connection.prepare(END_SESSIONS);
  const endLinks = connection.prepare(END_LINKS);
  const { shiftSchedule, hastenAttempts } = attemptScheduleWrites(connection);

  function shiftTimes({ after, by }: { after: number; by: number }): number {
    // The columns hold whole milliseconds.
    const step = { after, by: Math.round(by) };
    shiftReading.run(step);
    shiftLinks.run(step);
    return shiftSchedule(step);
  }

  return {
    shiftTimes,
    hastenAttempts,
    keepClockReading: (reading) => void keep.run(reading),

    resumeClock({ reading, stepMs, isElapsedKnown }) {
      // Overdue times move back with the clock too: otherwise they would lie ahead, and move further when the clock is
      // corrected.
      const after = Math.min(reading.wallAt, reading.wallAt - stepMs);
      const moved = stepMs === 0 ? 0 : shiftTimes({ after, by: stepMs });
      if (!isElapsedKnown) {
        endSessions.run();
        endLinks.run();
      }
      keep.run(reading);
      return moved;
    },
  } satisfies Steps;
}

/** The read on what the clocks showed last. */
export function clockReads(connection: Connection) {
  const find = connection.prepare<[], ClockReading>(FIND_READING);

  return { findClockReading: () => find.get() ?? null } satisfies Steps;
}
