import type { AccountLimits as AccountLimitsShown, Usage } from "../../api/account.ts";
import type { AccountLimits, AccountUsage } from "../../domain/account/quota.ts";

/** An account's limits and usage, as answers show them. */

/** The limits that apply to an account. */
export function limitsDocument(limits: AccountLimits): AccountLimitsShown {
  return {
    bytes: limits.bytes,
    open_tasks: limits.openTasks,
    requests_per_minute: limits.requestsPerMinute,
    tasks_per_minute: limits.tasksPerMinute,
  };
}

/** The usage of an account. */
export function usageDocument({ bytes, openTasks }: AccountUsage): Usage {
  return { bytes, open_tasks: openTasks };
}
