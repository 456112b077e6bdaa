import type { Connection } from "./connection.ts";

export const ERASE_EXPIRED = `
  DELETE FROM tasks
  WHERE seq IN (
    SELECT seq FROM tasks
    WHERE expires_at IS NOT NULL AND expires_at <= @now
    ORDER BY expires_at
    LIMIT @max
  )`;

// 4 MiB at a time: a step this long is measured in tens of milliseconds at worst, and new tasks wait behind it.
const RECLAIM_PAGES = 1000;

/** The writes that keep the file's size in bounds. Each runs inside the transaction of its batch. */
export function upkeepWrites(connection: Connection) {
  const erase = connection.prepare(ERASE_EXPIRED);
  const freePages = (): number => Number(connection.pragma("freelist_count", { simple: true }));

  return {
    // Inputs, results, deliveries and attempts go with their task, by ON DELETE CASCADE.
    eraseExpired(due: { now: number; max: number }): number {
      return erase.run(due).changes;
    },

    // What is left below one step is kept for the next tasks: giving it back would only make the file grow again.
    reclaimSpace(): "more" | "done" {
      const before = freePages();
      if (before <= RECLAIM_PAGES) return "done";
      connection.pragma(`incremental_vacuum(${RECLAIM_PAGES})`);
      const after = freePages();
      // A file without auto_vacuum never shrinks: asking again would be asking for ever.
      return after > RECLAIM_PAGES && after < before ? "more" : "done";
    },
  };
}
