import type { AccountLimits as AccountLimitsShown, Usage } from "../../api/account.ts";
import type { AccountLimits, AccountUsage } from "../../domain/account/quota.ts";

/** What an account may take up and what it has, as answers show them. */

/** The limits that count for an account. */
export function limitsDocument(limits: AccountLimits): AccountLimitsShown {
  return {
    bytes: limits.bytes,
    open_tasks: limits.openTasks,
    requests_per_minute: limits.requestsPerMinute,
    tasks_per_minute: limits.tasksPerMinute,
  };
}

/** What an account has. */
export function usageDocument({ bytes, openTasks }: AccountUsage): Usage {
  return { bytes, open_tasks: openTasks };
}
