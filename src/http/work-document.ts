import type { WorkCounts } from "../store/store.ts";

/** How much there is to do, as every answer shows it: `WorkCounts` in stats-schema.ts. */
export function workDocument({ queued, running, ready, retrying, undelivered }: WorkCounts) {
  return { waiting: queued, running, ready, retrying, undelivered };
}
