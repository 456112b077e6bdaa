import { randomUUID } from "node:crypto";

import Database from "better-sqlite3";

/** Inserts tasks as rows for some seconds, one transaction after the other, and returns how many per second. */
export function insert({ file, seconds, rowsPerTransaction, input }) {
  const database = new Database(file);
  database.pragma("journal_mode = WAL");
  database.pragma("synchronous = FULL");
  database.exec(
    "CREATE TABLE IF NOT EXISTS tasks (id TEXT PRIMARY KEY, type TEXT, state TEXT, input TEXT, postback_url TEXT)",
  );
  const statement = database.prepare("INSERT INTO tasks VALUES (?, 'echo', 'queued', ?, ?)");
  const insertMany = database.transaction(() => {
    for (let row = 0; row < rowsPerTransaction; row++)
      statement.run(randomUUID(), input, "http://127.0.0.1:8080/postback");
  });
  const startedAt = performance.now();
  let rows = 0;
  while (performance.now() - startedAt < seconds * 1000) {
    insertMany();
    rows += rowsPerTransaction;
  }
  const took = (performance.now() - startedAt) / 1000;
  database.close();
  return rows / took;
}
