import Database from "better-sqlite3";

/** The version of SQLite that is compiled in. To be called once a database is open in this thread. */
export function sqliteVersion(): string {
  const connection = new Database(":memory:");
  try {
    return String(connection.prepare("SELECT sqlite_version()").pluck().get());
  } finally {
    connection.close();
  }
}
