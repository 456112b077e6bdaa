import type { WorkCounts } from "../store/store.ts";

/** How much there is to do, as every answer shows it: `WorkCounts` in stats-schema.ts. */
export function workDocument(counts: WorkCounts) {
  const { queued, delayed, running, ready, retrying, undelivered } = counts;
  return { waiting: queued, delayed, running, ready, retrying, undelivered };
}
