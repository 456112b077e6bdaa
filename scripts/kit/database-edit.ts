import Database from "better-sqlite3";
import { z } from "zod";

const columns = z.array(z.object({ name: z.string() }));

/** Changes a file in one transaction. To be called while no daemon has it. */
export function editDatabase(file: string, edit: (database: Database.Database) => void): void {
  const database = new Database(file);
  try {
    database.transaction(edit)(database);
  } finally {
    database.close();
  }
}

/** The rows to copy. */
export interface RowsToCopy {
  readonly table: string;
  /** Which rows and copies, as SQL. */
  readonly where: string;
  readonly times: number;
  /** What is not copied, as SQL by column: `n.i` is the number of the copy, from 1. */
  readonly anew: Readonly<Record<string, string>>;
}

/**
 * Copies rows that the daemon itself made, whatever columns they have: making so many through it would take longer than
 * the whole measurement.
 */
export function copyRows(
  database: Database.Database,
  { table, where, times, anew }: RowsToCopy,
): void {
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
