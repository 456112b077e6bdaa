import type Database from "better-sqlite3";

import { editDatabase } from "./database-edit.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAYS = 30;
const MINUTES_KEPT = 25 * 60;
const HOSTS = 20;
// Of each 1,000 attempts, by bucket: most took 10 to 60 ms, few a second and more.
const DURATIONS = [
  0, 0, 0, 2, 8, 40, 120, 210, 230, 150, 90, 60, 40, 20, 10, 6, 4, 3, 2, 2, 1, 1, 1,
];

const TRAFFIC = `
  INSERT OR REPLACE INTO traffic (account_seq, step_ms, at, posted, completed, failed, cancelled,
    first_attempts, first_delivered, delivered, given_up, refused, queued, oldest_ms, durations_text)
  VALUES (@account, @step, @at, @posted, @posted - @failed, @failed, 0, @posted, @firstDelivered,
    @posted - @failed, @failed, 0, @queued, @queued * 40, @durations)`;
const HOST = `
  INSERT OR REPLACE INTO host_traffic (account_seq, at, host, attempts, succeeded, durations_text)
  VALUES (@account, @at, @host, 2000, 1950, @durations)`;

/**
 * Writes the traffic of an account, and of all together, that was busy in every minute for thirty days: what a fill of
 * a few minutes does not leave. To be called while no daemon has the file.
 */
export function fillTraffic(file: string): void {
  const now = Date.now();
  const hour = Math.floor(now / HOUR_MS) * HOUR_MS;
  const minute = Math.floor(now / MINUTE_MS) * MINUTE_MS;
  const oldestMinute = minute - MINUTES_KEPT * MINUTE_MS;
  editDatabase(file, (database) => {
    for (const account of [0, 1]) {
      for (let i = 1; i < DAYS * 24; i++) {
        const at = hour - i * HOUR_MS;
        if (at < oldestMinute) writeStep(database, { account, step: HOUR_MS, at });
        writeHosts(database, { account, at });
      }
      for (let at = oldestMinute; at < minute; at += MINUTE_MS) {
        writeStep(database, { account, step: MINUTE_MS, at });
      }
    }
  });
}

interface Step {
  readonly account: number;
  readonly step: number;
  readonly at: number;
}

function writeStep(database: Database.Database, step: Step): void {
  const posted = Math.round(
    (step.step / MINUTE_MS) * dayShape(step.at) * (40 + noise(step.at) * 15),
  );
  const firstDelivered = Math.round(posted * (0.965 + 0.03 * noise(step.at + 1)));
  const failed = Math.round(posted * 0.02 * noise(step.at + 3) ** 4);
  const queued = Math.round(dayShape(step.at) * 30 * noise(step.at + 2));
  const durations = JSON.stringify(DURATIONS.map((share) => Math.round((share * posted) / 1000)));
  database.prepare(TRAFFIC).run({ ...step, posted, failed, firstDelivered, queued, durations });
}

function writeHosts(database: Database.Database, { account, at }: Omit<Step, "step">): void {
  const write = database.prepare(HOST);
  const durations = JSON.stringify(DURATIONS.map((share) => share * 2));
  for (let i = 0; i < HOSTS; i++) {
    write.run({ account, at, host: `receiver-${i}.example.com`, durations });
  }
}

/** Between 0.4 at night and 1 by day. */
function dayShape(at: number): number {
  return 0.7 - 0.3 * Math.cos((2 * Math.PI * (at % (24 * HOUR_MS))) / (24 * HOUR_MS));
}

/** Between 0 and 1, and for one time always the same. */
function noise(at: number): number {
  const value = Math.sin(at / 7919) * 43_758.5453;
  return value - Math.floor(value);
}
