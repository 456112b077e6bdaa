import type { SiegeRow } from "./row.ts";
import { ROWS_OF_ACCOUNTS } from "./rows-account.ts";
import { ROWS_OF_DELIVERIES } from "./rows-deliveries.ts";
import { ROWS_WITHOUT_KEY } from "./rows-without-key.ts";
import { ROWS_OF_WORKERS } from "./rows-workers.ts";

/** Every row of the table, in its order. */
export const SIEGE_ROWS: readonly SiegeRow[] = [
  ...ROWS_WITHOUT_KEY,
  ...ROWS_OF_ACCOUNTS,
  ...ROWS_OF_DELIVERIES,
  ...ROWS_OF_WORKERS,
];

/** The rows of these names, separated by commas. Throws at an unknown name, and lists all names. */
export function chooseRows(names: string | undefined): readonly SiegeRow[] {
  if (names === undefined) return SIEGE_ROWS;
  return names.split(",").map((name) => {
    const row = SIEGE_ROWS.find((each) => each.name === name);
    if (row !== undefined) return row;
    throw new Error(`--only knows ${SIEGE_ROWS.map((each) => each.name).join(", ")}, not ${name}`);
  });
}
