import { randomUUID } from "node:crypto";

import Database from "better-sqlite3";

import { helperProcess } from "../kit/helper-process.ts";
import { benchInput } from "../kit/request.ts";

/** An order to insert rows for a time. */
interface InsertOrder {
  /** Of the database, which is made where it is not there. */
  readonly file: string;
  readonly seconds: number;
  readonly rowsPerTransaction: number;
}

class Inserts {
  /** Inserts tasks as rows, a transaction after the other, and answers how many a second. */
  run({ file, seconds, rowsPerTransaction }: InsertOrder): number {
    const database = new Database(file);
    database.pragma("journal_mode = WAL");
    database.pragma("synchronous = FULL");
    database.exec(
      "CREATE TABLE IF NOT EXISTS tasks (id TEXT PRIMARY KEY, type TEXT, state TEXT, input TEXT, postback_url TEXT)",
    );
    const insert = database.prepare("INSERT INTO tasks VALUES (?, 'echo', 'queued', ?, ?)");
    const input = JSON.stringify(benchInput());
    const insertMany = database.transaction(() => {
      for (let row = 0; row < rowsPerTransaction; row++) {
        insert.run(randomUUID(), input, "http://127.0.0.1:8080/postback");
      }
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
}

/** better-sqlite3 with nothing around it, in a process of its own. */
export class RawInserts extends helperProcess(import.meta, Inserts) {}
