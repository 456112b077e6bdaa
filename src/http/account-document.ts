import type { AccountLimits as AccountLimitsShown, Usage } from "../api/account.ts";
import type { WorkCounts as WorkCountsShown } from "../api/stats.ts";
import type { AccountLimits, AccountUsage } from "../domain/account/quota.ts";
import type { WorkCounts } from "../store/store.ts";

/** An account's limits, usage and work, as every answer shows them. */

export function limitsDocument(limits: AccountLimits): AccountLimitsShown {
  return {
    bytes: limits.bytes,
    open_tasks: limits.openTasks,
    requests_per_minute: limits.requestsPerMinute,
    tasks_per_minute: limits.tasksPerMinute,
  };
}

export function usageDocument({ bytes, openTasks }: AccountUsage): Usage {
  return { bytes, open_tasks: openTasks };
}

export function workDocument(counts: WorkCounts): WorkCountsShown {
  const { queued, delayed, running, ready, retrying, undelivered } = counts;
  return { waiting: queued, delayed, running, ready, retrying, undelivered };
}
