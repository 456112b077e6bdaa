import { statSync } from "node:fs";

import { deliveryPauseReads } from "../sql/delivery-pauses.ts";
import type { DeliveryPause } from "../store.ts";
import { openDatabase, sqliteCodeOf, type Connection } from "./machine/connection.ts";
import { bindUseCases } from "./use-cases.ts";

/** The facts in a file about its use by daemons. */
interface ServedFile {
  /** Null if no daemon has served the file yet, or only one that did not mark it. */
  readonly mode: string | null;
  /** The id of the installation, which its scheduled backups carry in their names; null until the first of them. */
  readonly installation: string | null;
  readonly hasAccounts: boolean;
}

const NEVER: ServedFile = { mode: null, installation: null, hasAccounts: false };

/** Reads the facts without changing the file, of any version. A missing file and other files count as never served. */
export function readServedFile(file: string): ServedFile {
  if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) === 0) return NEVER;
  const connection = openDatabase(file, { readonly: true, fileMustExist: true });
  try {
    const secrets = readSecrets(connection);
    const hasAccounts =
      hasTable(connection, "accounts") &&
      connection.prepare<[], number>("SELECT EXISTS (SELECT 1 FROM accounts)").pluck().get() === 1;
    const mode = secrets.get("mode") ?? null;
    return { mode, installation: secrets.get("installation") ?? null, hasAccounts };
  } catch (error) {
    // The open that follows describes the fault better.
    if (sqliteCodeOf(error) === "") throw error;
    return NEVER;
  } finally {
    connection.close();
  }
}

/** The pauses of deliveries in an open file of this version. */
export function readPauses(connection: Connection): readonly DeliveryPause[] {
  return bindUseCases(connection, deliveryPauseReads).listDeliveryPauses();
}

/**
 * Removes the id of the installation from a copy that no other process has open. A database that is restored from the
 * copy is another installation: it never removes backups of the first one, which may still run and use the same folder.
 */
export function forgetInstallation(file: string): void {
  const connection = openDatabase(file, { fileMustExist: true, timeout: 0 });
  try {
    connection.exec("PRAGMA synchronous = FULL");
    if (!readSecrets(connection).has("installation")) return;
    connection.exec("DELETE FROM secrets WHERE name = 'installation'");
  } finally {
    connection.close();
  }
}

function readSecrets(connection: Connection): ReadonlyMap<string, string> {
  if (!hasTable(connection, "secrets")) return new Map();
  const sql = "SELECT name, value FROM secrets WHERE name IN ('mode', 'installation')";
  const rows = connection.prepare<[], { name: string; value: string }>(sql).all();
  return new Map(rows.map(({ name, value }) => [name, value]));
}

function hasTable(connection: Connection, name: string): boolean {
  const sql = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?)";
  return connection.prepare<[string], number>(sql).pluck().get(name) === 1;
}
