import { createHash } from "node:crypto";

import { systemClock } from "../../domain/clock/clock.ts";
import { type ClockReading, decideResumption } from "../../domain/clock/service-clock.ts";
import type { Connection as Server } from "../postgres/machine/connection.ts";
import { DATABASE_BOOT_ID } from "../postgres/machine/database-clock.ts";
import { SCHEMA } from "../postgres/machine/schema.ts";
import type { ServerAddress } from "../postgres/machine/server-address.ts";
import type { Connection as File } from "../sqlite/machine/connection.ts";

export interface MoveReport {
  readonly from: string;
  readonly to: string;
  readonly rows: number;
  readonly tasks: number;
  /** True when an earlier move had copied everything and only its last step was missing. */
  readonly wasComplete: boolean;
}

/** Why nothing was moved, and what to do. Both databases are as they were before. */
export class MoveError extends Error {
  override readonly name = "MoveError" as const;
}

const FIND_VERSION = `SELECT version FROM schema_version`;

/** Throws unless the tables on the server are those that this program's moves know. */
export async function requireOwnVersion(server: Server, { shown }: ServerAddress): Promise<void> {
  const version = (await server.get<{ version: number }>(FIND_VERSION))?.version ?? SCHEMA.version;
  if (version === SCHEMA.version) return;
  throw new MoveError(
    version < SCHEMA.version
      ? `the tables in ${shown} are of an older version: run 'postbackd database migrate' first`
      : `the tables in ${shown} were made by a newer postbackd: move with that`,
  );
}

/** A task as both sides of a move must have it. */
export interface ComparedTask {
  readonly seq: number;
  readonly id: string;
  readonly state: string;
}

/** Reads up to so many tasks above a seq, in the order of their seqs. */
type ReadTasks = (after: number, max: number) => Promise<readonly ComparedTask[]>;

const PAGE = 10_000;

/** The checksum of the ids and states of all tasks, equal on both sides for equal tasks. */
export async function checksumOf(read: ReadTasks): Promise<string> {
  const hash = createHash("sha256");
  for (let after = -1; ;) {
    const tasks = await read(after, PAGE);
    for (const { seq, id, state } of tasks) hash.update(`${seq} ${id} ${state}\n`);
    const last = tasks.at(-1);
    if (last === undefined) return hash.digest("hex");
    after = last.seq;
  }
}

export const TASKS_OF_FILE = `SELECT seq, id, state FROM tasks WHERE seq > ? ORDER BY seq LIMIT ?`;

export const TASKS_OF_SERVER = `
  SELECT t.seq, t.id, coalesce(q.state, e.state) AS state
  FROM tasks AS t
  LEFT JOIN queue AS q ON q.task_seq = t.seq
  LEFT JOIN ends AS e ON e.task_seq = t.seq
  WHERE t.seq > $1 ORDER BY t.seq LIMIT $2`;

/**
 * The last reading of the clocks is one of the machine's in a file, and one of the database's on a server. Unchanged,
 * the first start after a move would look like a start after a reboot of unknown length. But a move knows both clocks.
 */

const FIND_IN_FILE = `
  SELECT wall_at AS wallAt, service_at AS steadyAt, uptime_ms AS uptimeMs, boot_id AS bootId FROM clock_readings`;
const KEEP_IN_FILE = `
  UPDATE clock_readings SET wall_at = ?, service_at = ?, uptime_ms = ?, boot_id = ?`;

const NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
const FIND_ON_SERVER = `
  SELECT ${NOW} - wall_at AS "passedMs", service_at AS "steadyAt", boot_id AS "bootId" FROM clock_readings`;
const KEEP_ON_SERVER = `
  UPDATE clock_readings SET wall_at = ${NOW}, service_at = $1, uptime_ms = $2, boot_id = $3`;

/** Continues a file's clock reading on PostgreSQL. The reading stays if the elapsed time is unknown on this machine. */
export async function continueOnServer(file: File, server: Server): Promise<void> {
  const last = file.prepare<[], ClockReading>(FIND_IN_FILE).get();
  if (last === undefined) return;
  const uptimeMs = systemClock.uptime();
  const now = { wallAt: systemClock.now(), uptimeMs, bootId: systemClock.bootId() };
  const { steadyAt, stepMs, isElapsedKnown } = decideResumption(last, now);
  if (!isElapsedKnown || stepMs !== 0) return;
  await server.run(KEEP_ON_SERVER, [steadyAt, uptimeMs, DATABASE_BOOT_ID]);
}

interface ServerReading {
  readonly passedMs: number;
  readonly steadyAt: number;
  readonly bootId: string | null;
}

/** Continues a server's reading in a file that this machine's daemon will serve. */
export async function continueInFile(server: Server, file: File): Promise<void> {
  const last = await server.get<ServerReading>(FIND_ON_SERVER);
  if (last === undefined || last.bootId !== DATABASE_BOOT_ID) return;
  const steadyAt = last.steadyAt + Math.max(0, last.passedMs);
  file
    .prepare<[number, number, number, string | null]>(KEEP_IN_FILE)
    .run(systemClock.now(), steadyAt, systemClock.uptime(), systemClock.bootId());
}
