import type { ClockReading } from "../../domain/clock/service-clock.ts";
import { WHOLE_TABLES, type WriteRules } from "../common/write-rule.ts";
import { onlyPostgres, onlySqlite, statement, type Statement, type Values } from "./statement.ts";
import { get, run, send, type StoreUseCases, type UseCase } from "./use-case.ts";

const FIND_READING = statement(`
  SELECT wall_at AS "wallAt", service_at AS "steadyAt", uptime_ms AS "uptimeMs", boot_id AS "bootId"
  FROM clock_readings`);

const KEEP_READING = statement(`
  INSERT INTO clock_readings (one, wall_at, service_at, uptime_ms, boot_id)
  VALUES (1, @wallAt, @steadyAt, @uptimeMs, @bootId)
  ON CONFLICT (one) DO UPDATE
  SET wall_at = excluded.wall_at, service_at = excluded.service_at,
      uptime_ms = excluded.uptime_ms, boot_id = excluded.boot_id`);

/**
 * Moves the reading too: once a step of the clock has moved what waits, the next start must not find that step again.
 */
const SHIFT_READING = statement(`UPDATE clock_readings SET wall_at = wall_at + @by`);

export const SHIFT_LINKS = statement(`UPDATE sign_in_links SET expires_at = expires_at + @by`);

/**
 * Reads the whole partial index, which holds what is scheduled and nothing else (measured: 170 ms for 104,000
 * scheduled attempts among 1,100,000).
 */
export const SHIFT_ATTEMPTS = onlySqlite(`
  UPDATE attempts INDEXED BY attempts_due
  SET due_at = due_at + @by
  WHERE started_at IS NULL AND +due_at > @after`);

/** A task that has failed before waits for its next run; any other waits for the time that its poster asked for. */
export const SHIFT_RUNS = onlySqlite(`
  UPDATE tasks INDEXED BY tasks_delayed
  SET start_at = start_at + @by
  WHERE state = 'delayed' AND start_at > @after AND failures > 0`);

/** Moves all times of a lease, because the spans between them are durations. */
export const SHIFT_LEASES = onlySqlite(`
  UPDATE leases INDEXED BY leases_held
  SET claimed_at = claimed_at + @by, deadline_at = deadline_at + @by, expires_at = expires_at + @by
  WHERE ending IS NULL`);

/** Reads as much as {@link SHIFT_ATTEMPTS}, but only once, at a start. */
export const HASTEN_ATTEMPTS = onlySqlite(`
  UPDATE attempts INDEXED BY attempts_due
  SET due_at = iif(retry = 0, @now, @latest)
  WHERE started_at IS NULL AND due_at > iif(retry = 0, @now, @latest)`);

// PostgreSQL gives a statement some seconds before its connection counts as lost, so each moves a part. Measured: so
// many rows take 0.2 to 0.8 s.
const PART_MAX = 10_000;

/**
 * Changes the next rows of a table that the condition selects, those after a key. They are locked in the order of their
 * keys: in any other order this and a step of another node would wait for each other.
 */
function changePart(
  [table, key]: readonly [table: string, key: string],
  which: string,
  changes: string,
): Statement {
  return onlyPostgres(`
    WITH part AS MATERIALIZED (
      SELECT ${key} AS key FROM ${table} WHERE (${which}) AND ${key} > @last::bigint
      ORDER BY ${key} LIMIT ${PART_MAX} FOR UPDATE
    ), changed AS (
      UPDATE ${table} AS t SET ${changes} FROM part WHERE t.${key} = part.key RETURNING part.key
    )
    SELECT count(*) AS count, max(key) AS last FROM changed`);
}

/** {@link SHIFT_RUNS} and {@link SHIFT_LEASES} in one. */
const SHIFT_QUEUE_PART = changePart(
  ["queue", "task_seq"],
  `(state = 'delayed' AND start_at > @after AND failures > 0) OR (lease_id IS NOT NULL AND lease_ending IS NULL)`,
  `start_at = CASE WHEN state = 'delayed' THEN start_at + @by ELSE start_at END,
    claimed_at = CASE WHEN lease_ending IS NULL THEN claimed_at + @by ELSE claimed_at END,
    deadline_at = CASE WHEN lease_ending IS NULL THEN deadline_at + @by ELSE deadline_at END,
    lease_until = CASE WHEN lease_ending IS NULL THEN lease_until + @by ELSE lease_until END`,
);

const SHIFT_ATTEMPTS_PART = changePart(
  ["outbox", "seq"],
  `started_at IS NULL AND due_at > @after`,
  `due_at = due_at + @by`,
);

const LATEST = `CASE WHEN retry = 0 THEN @now::bigint ELSE @latest::bigint END`;

const HASTEN_ATTEMPTS_PART = changePart(
  ["outbox", "seq"],
  `started_at IS NULL AND due_at > ${LATEST}`,
  `due_at = ${LATEST}`,
);

/** The statements that change large tables part by part, for the tests of their plans. */
export const CHANGES_OF_PARTS = [SHIFT_QUEUE_PART, SHIFT_ATTEMPTS_PART, HASTEN_ATTEMPTS_PART];

const END_SESSIONS = statement(`DELETE FROM sessions`);
const END_LINKS = statement(`DELETE FROM sign_in_links`);

export const clockWrites = {
  shiftTimes,

  *hastenAttempts({ now, latest }) {
    const bounds = { now, latest };
    const hastened = yield* run(HASTEN_ATTEMPTS, bounds);
    return hastened + (yield* changeAll(HASTEN_ATTEMPTS_PART, bounds));
  },

  keepClockReading: keepReading,

  *resumeClock({ reading, stepMs, isElapsedKnown }) {
    // Overdue times move back with the clock too: otherwise they would lie ahead, and move further when the clock is
    // corrected.
    const after = Math.min(reading.wallAt, reading.wallAt - stepMs);
    const moved = stepMs === 0 ? 0 : yield* shiftTimes({ after, by: stepMs });
    if (!isElapsedKnown) {
      yield* send(END_SESSIONS);
      yield* send(END_LINKS);
    }
    yield* keepReading(reading);
    return moved;
  },
} satisfies StoreUseCases;

function* shiftTimes({ after, by }: { after: number; by: number }): UseCase<number> {
  // The columns hold whole milliseconds.
  const step = { after, by: Math.round(by) };
  yield* send(SHIFT_RUNS, step);
  yield* send(SHIFT_LEASES, step);
  yield* changeAll(SHIFT_QUEUE_PART, step);
  const moved = yield* run(SHIFT_ATTEMPTS, step);
  const movedByParts = yield* changeAll(SHIFT_ATTEMPTS_PART, step);
  yield* send(SHIFT_LINKS, step);
  yield* send(SHIFT_READING, step);
  return moved + movedByParts;
}

function* keepReading({ wallAt, steadyAt, uptimeMs, bootId }: ClockReading): UseCase<void> {
  yield* send(KEEP_READING, { wallAt, steadyAt, uptimeMs, bootId });
}

/** Changes part by part; returns how many rows. */
function* changeAll(part: Statement, values: Values): UseCase<number> {
  let changed = 0;
  for (let last: number | null = 0; last !== null;) {
    const found: { count: number; last: number | null } | undefined = yield* get(part, {
      ...values,
      last,
    });
    changed += found?.count ?? 0;
    last = found?.last ?? null;
  }
  return changed;
}

export const clockReads = {
  *findClockReading() {
    return (yield* get<ClockReading>(FIND_READING)) ?? null;
  },
} satisfies StoreUseCases;

export const clockRules = {
  keepClockReading: {},
  resumeClock: { weight: WHOLE_TABLES },
  shiftTimes: { weight: WHOLE_TABLES },
  hastenAttempts: { weight: WHOLE_TABLES },
} satisfies WriteRules;
