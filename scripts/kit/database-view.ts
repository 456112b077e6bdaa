import Database from "better-sqlite3";
import type { z } from "zod";

import { until } from "./until.ts";

const IS_IN_FLIGHT =
  "EXISTS (SELECT 1 FROM attempts WHERE started_at IS NOT NULL AND ended_at IS NULL)";

const UNFINISHED = `
  SELECT
    EXISTS (SELECT 1 FROM tasks WHERE state = 'queued')
    OR EXISTS (SELECT 1 FROM tasks WHERE state = 'running')
    OR EXISTS (SELECT 1 FROM tasks WHERE state = 'delayed')
    OR EXISTS (SELECT 1 FROM attempts WHERE started_at IS NULL)
    OR ${IS_IN_FLIGHT}`;

const POLL_MS = 10;

/**
 * Looks into a daemon's database from outside, for reading only and with queries of its own: what the
 * scripts verify must not be what the program says of itself.
 */
export class DatabaseView {
  readonly #connection: Database.Database;
  readonly #unfinished: Database.Statement;

  constructor(file: string) {
    this.#connection = new Database(file, { readonly: true, fileMustExist: true });
    this.#unfinished = this.#connection.prepare(UNFINISHED).pluck();
  }

  /** A statement that answers one column. */
  column(sql: string): readonly unknown[] {
    return this.#connection.prepare(sql).pluck().all();
  }

  /** A statement's rows, by the names of its columns, one after the other. */
  *rows<Row>(sql: string, row: z.ZodType<Row>): Generator<Row> {
    for (const found of this.#connection.prepare(sql).iterate()) yield row.parse(found);
  }

  /** A statement that answers one number. */
  number(sql: string): number {
    return Number(this.#connection.prepare(sql).pluck().get());
  }

  /** Answers the id of some task of the file, another one each time. */
  anyTask(): () => string {
    const ids = this.column("SELECT id FROM tasks WHERE abs(random()) % 200 = 0 LIMIT 5000");
    return () => String(ids[Math.floor(Math.random() * ids.length)]);
  }

  /** True when no task waits or runs, and no attempt is scheduled or in flight. */
  isQuiet(): boolean {
    return this.#unfinished.get() === 0;
  }

  /** Settles once it is quiet. Rejects after `msMax`. */
  async quiet({ msMax }: { readonly msMax: number }): Promise<void> {
    const fault = (): string => `not everything was done within ${msMax} ms`;
    await until(() => this.isQuiet(), { msMax, everyMs: POLL_MS, fault });
  }

  /** Settles once no attempt is in flight: what has arrived is on record. Rejects after `msMax`. */
  async recorded({ msMax }: { readonly msMax: number }): Promise<void> {
    const fault = (): string => `not every attempt was recorded within ${msMax} ms`;
    await until(() => this.number(`SELECT ${IS_IN_FLIGHT}`) === 0, {
      msMax,
      everyMs: POLL_MS,
      fault,
    });
  }

  [Symbol.dispose](): void {
    this.#connection.close();
  }
}
