import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

// 4 MiB at a time: such a step takes tens of milliseconds at worst, for which new tasks wait.
const RECLAIM_PAGES = 1000;

export function upkeepWrites(connection: Connection) {
  const pragma = pragmaReader(connection);

  return {
    // Less than one step is kept for the next tasks: giving it back would only make the file grow again.
    reclaimSpace() {
      const before = pragma("freelist_count");
      if (before <= RECLAIM_PAGES) return "done";
      connection.pragma(`incremental_vacuum(${RECLAIM_PAGES})`);
      const after = pragma("freelist_count");
      // A file without auto_vacuum never shrinks: asking again would never end.
      return after > RECLAIM_PAGES && after < before ? "more" : "done";
    },

    // Writes the first page of the file again, unchanged: nothing else would cause a commit.
    tryWrite: () => void connection.pragma(`user_version = ${pragma("user_version")}`),
  } satisfies Steps;
}

export function upkeepReads(connection: Connection) {
  const pragma = pragmaReader(connection);

  return {
    // One snapshot: otherwise pages that a commit frees or adds between two readings would be counted wrongly.
    usedBytes: connection.transaction(
      () => (pragma("page_count") - pragma("freelist_count")) * pragma("page_size"),
    ),
  } satisfies Steps;
}

function pragmaReader(connection: Connection): (name: string) => number {
  return (name) => Number(connection.pragma(name, { simple: true }));
}
