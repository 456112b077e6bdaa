import { createHash } from "node:crypto";

import Database from "better-sqlite3";
import { z } from "zod";

const columns = z.array(z.object({ name: z.string(), pk: z.number() }));

/** What a table has: how many rows, and a checksum over all of them. */
export interface TableRows {
  readonly rows: number;
  readonly checksum: string;
}

// They say which numbers were given, where the file was moved to, and when a clock was read last.
const OWN = ["erased_accounts", "moved", "clock_readings"];

/** Reads every row of every table of a file that nobody changes meanwhile, by the table's name. */
export function rowsOf(file: string): ReadonlyMap<string, TableRows> {
  const database = new Database(file, { readonly: true });
  try {
    const tables = database
      .prepare<[], string>(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
      )
      .pluck()
      .all()
      .filter((name) => !OWN.includes(name));
    return new Map(tables.map((table) => [table, readTable(database, table)]));
  } finally {
    database.close();
  }
}

function readTable(database: Database.Database, table: string): TableRows {
  const found = columns.parse(database.pragma(`table_info(${table})`));
  // SQLite numbers these rows for itself.
  const isOwn = (name: string): boolean => table === "idempotency_keys" && name === "seq";
  const names = found.map(({ name }) => name).filter((name) => !isOwn(name));
  const keys = found.filter(({ name, pk }) => pk > 0 && !isOwn(name)).map(({ name }) => name);
  const order = keys.length > 0 ? keys : names;
  const all = database
    .prepare<[], unknown[]>(`SELECT ${names.join(", ")} FROM ${table} ORDER BY ${order.join(", ")}`)
    .raw();
  const hash = createHash("sha256");
  let rows = 0;
  for (const row of all.iterate()) {
    hash.update(`${JSON.stringify(row)}\n`);
    rows++;
  }
  return { rows, checksum: hash.digest("hex") };
}

/** Throws, with the tables' names, unless both have the same rows. */
export function requireSame(
  found: ReadonlyMap<string, TableRows>,
  wanted: ReadonlyMap<string, TableRows>,
): void {
  const names = [...new Set([...found.keys(), ...wanted.keys()])];
  const isOther = (name: string): boolean =>
    found.get(name)?.checksum !== wanted.get(name)?.checksum;
  const others = names.filter(isOther).map((name) => {
    return `${name} (${found.get(name)?.rows} rows instead of ${wanted.get(name)?.rows})`;
  });
  if (others.length > 0) throw new Error(`not as they were: ${others.join(", ")}`);
}
