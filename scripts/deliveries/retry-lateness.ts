import { DatabaseView } from "../kit/database-view.ts";
import { Durations, type Spread } from "../kit/durations.ts";

/**
 * How late retries were begun, from `due_at` to `started_at`, of all that were due in a time (epoch milliseconds). Throws
 * when one of them was not begun.
 */
export function retryLateness(
  database: string,
  { retriesFrom, to }: { readonly retriesFrom: number; readonly to: number },
): Spread {
  using view = new DatabaseView(database);
  const due = `FROM attempts WHERE retry > 0 AND due_at >= ${retriesFrom} AND due_at < ${to}`;
  const left = view.number(`SELECT count(*) ${due} AND started_at IS NULL`);
  if (left > 0) throw new Error(`${left} retries that were due were not begun`);
  const durations = new Durations();
  for (const ms of view.column(`SELECT started_at - due_at ${due}`)) durations.add(Number(ms));
  return durations.spread;
}
