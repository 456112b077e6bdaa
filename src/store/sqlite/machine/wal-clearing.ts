import { openDatabase } from "./connection.ts";

const TRIES = 20;
const TRY_MS = 250;

/**
 * Copies the content of the WAL into the file and empties it: pages with data that has been erased since stay there
 * until others take their place. A daemon may go on meanwhile. False when somebody was reading from the WAL all the
 * while. Occupies its thread for some seconds: for a process that does nothing else.
 */
export function clearWal(file: string): boolean {
  const connection = openDatabase(file, { fileMustExist: true, timeout: TRY_MS });
  try {
    for (let left = TRIES; left > 0; left--) {
      // The first column is 1 when somebody was in the way.
      if (connection.pragma("wal_checkpoint(TRUNCATE)", { simple: true }) === 0) return true;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, TRY_MS);
    }
    return false;
  } finally {
    connection.close();
  }
}
