// Rows erased at once keep other writes waiting. SQLite overwrites it all (secure_delete): 100 tasks of 5 MiB took
// 5.7 s (measured), and so much takes some 20 ms. PostgreSQL marks each 2 KB of a large text as gone: the 100 took 1 to
// 4 s.
const ERASE_BYTES_MAX = 2 * 1024 * 1024;

/** A row that is to be erased, and its size. */
export interface SizedRow {
  readonly seq: number;
  readonly bytes: number;
}

/** A task whose retention is over. */
export interface ExpiredRow extends SizedRow {
  readonly id: string;
}

/**
 * Takes the first rows, as many as one step may erase: at least one, however large, because it would never be erased
 * otherwise.
 */
export function takeWithin<Row extends Pick<SizedRow, "bytes">>(rows: Iterable<Row>): Row[] {
  const taken: Row[] = [];
  let sum = 0;
  for (const row of rows) {
    sum += row.bytes;
    if (taken.length > 0 && sum > ERASE_BYTES_MAX) break;
    taken.push(row);
  }
  return taken;
}
