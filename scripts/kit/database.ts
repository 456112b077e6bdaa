import Database from "better-sqlite3";
import pg from "pg";
import { z } from "zod";

import { until } from "./until.ts";

const IS_IN_FLIGHT =
  "EXISTS (SELECT 1 FROM attempts WHERE started_at IS NOT NULL AND ended_at IS NULL)";

// Each part uses a partial index.
const UNFINISHED = `
  SELECT EXISTS (SELECT 1 FROM tasks WHERE state = 'queued')
    OR EXISTS (SELECT 1 FROM tasks WHERE state = 'running')
    OR EXISTS (SELECT 1 FROM tasks WHERE state = 'delayed')
    OR EXISTS (SELECT 1 FROM attempts WHERE started_at IS NULL)
    OR ${IS_IN_FLIGHT}`;

/**
 * Reads a daemon's file from outside, with queries of its own: what scripts verify must not depend on the program that
 * they verify.
 */
export class DatabaseView {
  readonly #connection: Database.Database;
  readonly #unfinished: Database.Statement;

  constructor(file: string) {
    this.#connection = new Database(file, { readonly: true, fileMustExist: true });
    this.#unfinished = this.#connection.prepare(UNFINISHED).pluck();
  }

  /** The values of a statement with one column. */
  column(sql: string): readonly unknown[] {
    return this.#connection.prepare(sql).pluck().all();
  }

  /** The rows of a statement, by the names of its columns, one after the other. */
  *rows<Row>(sql: string, row: z.ZodType<Row>): Generator<Row> {
    for (const found of this.#connection.prepare(sql).iterate()) yield row.parse(found);
  }

  number(sql: string): number {
    return Number(this.#connection.prepare(sql).pluck().get());
  }

  /** True if no task waits or runs, and no attempt is scheduled or in flight. */
  isQuiet(): boolean {
    return this.#unfinished.get() === 0;
  }

  [Symbol.dispose](): void {
    this.#connection.close();
  }
}

/** Reads a daemon's database from outside, whether it is a file or on PostgreSQL. */
export interface OutsideView extends AsyncDisposable {
  /** Settles when no task waits or runs, and no attempt is scheduled or in flight. Rejects after `msMax`. */
  quiet(msMax: number): Promise<void>;
  /** Settles when no attempt is in flight: all arrivals are recorded. Rejects after `msMax`. */
  recorded(msMax: number): Promise<void>;
  countUndelivered(): Promise<number>;
}

const ON_SERVER = {
  unfinished: "SELECT (EXISTS (SELECT 1 FROM queue) OR EXISTS (SELECT 1 FROM outbox))::int AS n",
  inFlight: "SELECT (EXISTS (SELECT 1 FROM outbox WHERE started_at IS NOT NULL))::int AS n",
  undelivered: "SELECT count(*)::int AS n FROM deliveries WHERE ended IS DISTINCT FROM 'delivered'",
};
const IN_FILE = {
  unfinished: UNFINISHED,
  inFlight: `SELECT ${IS_IN_FLIGHT}`,
  undelivered: "SELECT count(*) FROM deliveries WHERE ended IS NOT 'delivered'",
};

const POLL_MS = 10;

/** `database` is the path of a file, or a URL. */
export async function openOutsideView(database: string): Promise<OutsideView> {
  const isServer = database.startsWith("postgres:");
  const sql = isServer ? ON_SERVER : IN_FILE;
  const client = isServer ? new pg.Client({ connectionString: database }) : null;
  await client?.connect();
  const view = isServer ? null : new DatabaseView(database);
  const number = async (statement: string): Promise<number> =>
    view?.number(statement) ?? (await client?.query<{ n: number }>(statement))?.rows[0]?.n ?? 0;
  const none = async (what: keyof typeof sql, msMax: number): Promise<void> => {
    const fault = (): string => `not everything was done within ${msMax} ms`;
    await until(async () => (await number(sql[what])) === 0, { msMax, everyMs: POLL_MS, fault });
  };
  return {
    quiet: (msMax) => none("unfinished", msMax),
    recorded: (msMax) => none("inFlight", msMax),
    countUndelivered: () => number(sql.undelivered),
    async [Symbol.asyncDispose]() {
      view?.[Symbol.dispose]();
      await client?.end();
    },
  };
}

/** Runs one statement on PostgreSQL, on a connection of its own. */
export async function queryOnce<Row extends pg.QueryResultRow>(
  url: string,
  sql: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(sql, [...values])).rows;
  } finally {
    await client.end();
  }
}

/** Changes a file in one transaction. No daemon may have it open. */
export function editDatabase(file: string, edit: (database: Database.Database) => void): void {
  const database = new Database(file);
  try {
    database.transaction(edit)(database);
  } finally {
    database.close();
  }
}

const columns = z.array(z.object({ name: z.string() }));

/**
 * Copies rows of the daemon with all their columns: creating as many through the daemon would take longer than the
 * measurement. `where` selects rows and copies; `anew` has what is not copied, as SQL by column, in which `n.i` is the
 * number of the copy, from 1.
 */
export function copyRows(
  database: Database.Database,
  rows: {
    readonly table: string;
    readonly where: string;
    readonly times: number;
    readonly anew: Readonly<Record<string, string>>;
  },
): void {
  const { table, where, times, anew } = rows;
  const names = columns.parse(database.pragma(`table_info(${table})`)).map(({ name }) => name);
  const values = names.map((name) => anew[name] ?? name);
  database.exec(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${times})
    INSERT INTO ${table} (${names.join(", ")})
    SELECT ${values.join(", ")} FROM ${table}, n WHERE ${where}`,
  );
}

/** For the column `id` of tasks. */
export const NEW_ID = "printf('%s%012x', substr(id, 1, 24), n.i)";
