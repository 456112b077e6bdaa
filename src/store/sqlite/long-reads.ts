import type { Connection } from "./connection.ts";
import { deliveryLogReads } from "./delivery-log.ts";
import { taskListReads } from "./task-list.ts";

/** Every read that may take long, by name. */
export type LongReads = ReturnType<typeof longReads>;

/** The reads that may take long: what holds them up must hold up nothing else. */
export function longReads(connection: Connection) {
  return { ...taskListReads(connection), ...deliveryLogReads(connection) };
}
