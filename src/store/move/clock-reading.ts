import { systemClock } from "../../domain/clock/clock.ts";
import { decideResumption, type ClockReading } from "../../domain/clock/service-clock.ts";
import type { Connection as Server } from "../postgres/machine/connection.ts";
import { DATABASE_BOOT_ID } from "../postgres/machine/database-clock.ts";
import type { Connection as File } from "../sqlite/machine/connection.ts";

/**
 * The last reading of the clocks is one of the machine's in a file, and one of the database's on a server. Taken over as
 * it is, the first start after a move would look like one after a reboot, of which nobody knows how long the machine was
 * off. But a move knows both clocks.
 */

const FIND_IN_FILE = `
  SELECT wall_at AS wallAt, steady_at AS steadyAt, uptime_ms AS uptimeMs, boot_id AS bootId FROM clock_readings`;
const KEEP_IN_FILE = `
  UPDATE clock_readings SET wall_at = ?, steady_at = ?, uptime_ms = ?, boot_id = ?`;

const NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
const FIND_ON_SERVER = `
  SELECT ${NOW} - wall_at AS "passedMs", steady_at AS "steadyAt", boot_id AS "bootId" FROM clock_readings`;
const KEEP_ON_SERVER = `
  UPDATE clock_readings SET wall_at = ${NOW}, steady_at = $1, uptime_ms = $2, boot_id = $3`;

/** Continues a file's reading on the server; where this machine cannot tell how much time has passed, it stays. */
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
