import type { Timeline } from "../../api/timeline.ts";
import { durationText } from "../shell/format.ts";

type Run = Pick<Timeline, "task">;
type RefusableTask = Pick<Timeline["task"], "state" | "status_code">;

/** A clause about the task itself, regardless of its webhooks: its end, and why. */
export function runVerdict({ task }: Run): string {
  const { state, runs, started_at: startedAt, status_message: status, error } = task;
  switch (state) {
    case "queued":
      return runs === 0 ? "queued: it has not run yet" : "queued: it is to run again";
    case "running":
      return "running: it has not finished yet";
    case "completed":
      return `completed${spentText(task)}`;
    case "failed":
      return isRefused(task)
        ? `refused by task_post, so it never ran and sends nothing: ${status}`
        : `failed${spentText(task)}: ${error?.message ?? status}`;
    case "cancelled":
      return startedAt === null ? "cancelled before it ran" : "cancelled while it ran";
  }
}

const REFUSED_CODES: readonly number[] = [40501, 40506];

/** True for a task that was stored as failed when it was posted. */
export function isRefused({ state, status_code: code }: RefusableTask): boolean {
  return state === "failed" && REFUSED_CODES.includes(code);
}

/** How long the last run took; empty for a task that never started. */
function spentText({ started_at: startedAt, completed_at: completedAt }: Timeline["task"]): string {
  if (startedAt === null || completedAt === null) return "";
  return ` after ${durationText(Date.parse(completedAt) - Date.parse(startedAt))}`;
}
