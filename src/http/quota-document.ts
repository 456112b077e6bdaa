import type { AccountLimits, AccountUsage } from "../domain/quota.ts";
import { objectSchema, type JsonSchema } from "./json-schema.ts";

/** What an account may take up and what it has, as answers show them. */

const LIMIT: JsonSchema = { type: "integer", minimum: 0, description: "0 is no limit." };

/** The fields of {@link limitsDocument}. */
export const LIMIT_FIELDS: Readonly<Record<string, JsonSchema>> = {
  bytes: {
    ...LIMIT,
    description: "Of tasks in the store, from which posts are 50700; 0 is no limit.",
  },
  open_tasks: {
    ...LIMIT,
    description: "That wait or run, beyond which posts are 42900; 0 is no limit.",
  },
  requests_per_minute: LIMIT,
  tasks_per_minute: { ...LIMIT, description: "That are posted; 0 is no limit." },
};

export const USAGE_SCHEMA: JsonSchema = objectSchema({
  bytes: {
    ...{ type: "integer", minimum: 0 },
    description:
      "Of tasks in the store: data, input, result and error, with what a task takes beside.",
  },
  open_tasks: { type: "integer", minimum: 0, description: "That wait or run." },
});

/** The limits that count for an account. */
export function limitsDocument(limits: AccountLimits) {
  return {
    bytes: limits.bytes,
    open_tasks: limits.openTasks,
    requests_per_minute: limits.requestsPerMinute,
    tasks_per_minute: limits.tasksPerMinute,
  };
}

/** What an account has. */
export function usageDocument({ bytes, openTasks }: AccountUsage) {
  return { bytes, open_tasks: openTasks };
}
