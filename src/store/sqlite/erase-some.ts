/** Deletes up to @max of the rows that `selected` selects and orders. */
export function eraseSome(table: string, selected: string, key = "seq"): string {
  const found = `SELECT ${key} FROM ${table} ${selected} LIMIT @max`;
  return `DELETE FROM ${table} WHERE (${key}) IN (${found})`;
}
