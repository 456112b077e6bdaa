import { parentPort, workerData } from "node:worker_threads";

import Database from "better-sqlite3";

/**
 * A thread that reads a database without a pause, as lists do that are asked for one after the other, until its flag is
 * set. It says `reading` once it has begun.
 */

// Set by the test that starts this thread.
const { file, stop } = workerData as { readonly file: string; readonly stop: Int32Array };
const connection = new Database(file, { readonly: true });
const scan = connection.prepare(`
  WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT 400000)
  SELECT count(*) FROM accounts, numbers`);

scan.get();
parentPort?.postMessage("reading");
while (Atomics.load(stop, 0) === 0) scan.get();
connection.close();
