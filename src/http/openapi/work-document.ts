import type { WorkCounts as WorkCountsShown } from "../../api/stats.ts";
import type { WorkCounts } from "../../store/store.ts";

/** The amount of work, as every answer shows it. */
export function workDocument(counts: WorkCounts): WorkCountsShown {
  const { queued, delayed, running, ready, retrying, undelivered } = counts;
  return { waiting: queued, delayed, running, ready, retrying, undelivered };
}
