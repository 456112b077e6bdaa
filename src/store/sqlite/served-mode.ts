import { statSync } from "node:fs";

import { openDatabase, sqliteCodeOf } from "./machine/connection.ts";

/** How a file has been served, as far as that can be told without a change to it. */
export interface ServedFile {
  /** Null for one that nobody has served yet, or a program that did not mark it. */
  readonly mode: string | null;
  readonly hasAccounts: boolean;
}

const NEVER: ServedFile = { mode: null, hasAccounts: false };

/** Reads how a file of any version has been served. Where there is none, nobody has; neither for no database. */
export function readServedMode(file: string): ServedFile {
  if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) === 0) return NEVER;
  const connection = openDatabase(file, { readonly: true, fileMustExist: true });
  try {
    const tables = connection
      .prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table'")
      .pluck()
      .all();
    const one = (table: string, sql: string): unknown =>
      tables.includes(table) ? connection.prepare<[], unknown>(sql).pluck().get() : undefined;
    const mode = one("secrets", "SELECT value FROM secrets WHERE name = 'mode'");
    const hasAccounts = one("accounts", "SELECT EXISTS (SELECT 1 FROM accounts)") === 1;
    return { mode: typeof mode === "string" ? mode : null, hasAccounts };
  } catch (error) {
    // Whoever opens it to serve it tells better what is wrong with it.
    if (sqliteCodeOf(error) === "") throw error;
    return NEVER;
  } finally {
    connection.close();
  }
}
