import type { ClockReading } from "../../domain/clock/service-clock.ts";
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

// A statement is given some seconds before its connection counts as lost, so each moves a part. Measured: so many rows
// take 0.2 to 0.8 s.
const PART_MAX = 10_000;

/**
 * Changes the next rows of a table that the condition selects, those after the key $3. They are locked in the order of
 * their keys: in any other order this and a step of another node would wait for each other.
 */
function changePart(
  [table, key]: readonly [table: string, key: string],
  which: string,
  changes: string,
): string {
  return `
  WITH part AS MATERIALIZED (
    SELECT ${key} AS key FROM ${table} WHERE (${which}) AND ${key} > $3::bigint
    ORDER BY ${key} LIMIT ${PART_MAX} FOR UPDATE
  ), changed AS (
    UPDATE ${table} AS t SET ${changes} FROM part WHERE t.${key} = part.key RETURNING part.key
  )
  SELECT count(*) AS count, max(key) AS last FROM changed`;
}

/**
 * A task that has failed before waits for its next run; any other waits for the time that its poster asked for. All
 * times of a lease move, because the spans between them are durations.
 */
export const SHIFT_QUEUE = changePart(
  ["queue", "task_seq"],
  `(state = 'delayed' AND start_at > $1 AND failures > 0) OR (lease_id IS NOT NULL AND lease_ending IS NULL)`,
  `start_at = CASE WHEN state = 'delayed' THEN start_at + $2 ELSE start_at END,
    claimed_at = CASE WHEN lease_ending IS NULL THEN claimed_at + $2 ELSE claimed_at END,
    deadline_at = CASE WHEN lease_ending IS NULL THEN deadline_at + $2 ELSE deadline_at END,
    lease_until = CASE WHEN lease_ending IS NULL THEN lease_until + $2 ELSE lease_until END`,
);

export const SHIFT_ATTEMPTS = changePart(
  ["outbox", "seq"],
  `started_at IS NULL AND due_at > $1`,
  `due_at = due_at + $2`,
);

const LATEST = `CASE WHEN retry = 0 THEN $1::bigint ELSE $2::bigint END`;

export const HASTEN_ATTEMPTS = changePart(
  ["outbox", "seq"],
  `started_at IS NULL AND due_at > ${LATEST}`,
  `due_at = ${LATEST}`,
);

const END_SESSIONS = `DELETE FROM sessions`;
const END_LINKS = `DELETE FROM sign_in_links`;

interface ChangedPart {
  readonly count: number;
  /** The greatest key; null when nothing is left. */
  readonly last: number | null;
}

export function clockWrites(sql: BatchSql) {
  function keep({ wallAt, steadyAt, uptimeMs, bootId }: ClockReading): void {
    sql.send(KEEP_READING, [wallAt, steadyAt, uptimeMs, bootId]);
  }

  /** Answers how many rows it changed. */
  async function changeAll(text: string, values: readonly number[]): Promise<number> {
    let changed = 0;
    for (let last: number | null = 0; last !== null;) {
      const part: ChangedPart | undefined = await sql.get(text, [...values, last]);
      changed += part?.count ?? 0;
      last = part?.last ?? null;
    }
    return changed;
  }

  async function shiftTimes({ after, by }: { after: number; by: number }): Promise<number> {
    // The columns hold whole milliseconds.
    const step = Math.round(by);
    await changeAll(SHIFT_QUEUE, [after, step]);
    const moved = await changeAll(SHIFT_ATTEMPTS, [after, step]);
    sql.send(SHIFT_LINKS, [step]);
    sql.send(SHIFT_READING, [step]);
    return moved;
  }

  return {
    shiftTimes: each(shiftTimes),

    hastenAttempts: each(({ now, latest }) => changeAll(HASTEN_ATTEMPTS, [now, latest])),

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
