import type { StatusCode } from "../status.ts";
import { canMove, type NewTask, type StoredState } from "./task.ts";

/**
 * Some of the rules are guards and sums in a store's statements, because they would cost the hot path a read: the end of a
 * run counts only while its task is running; a claim counts the run, a retry the failure, and a run that was released or
 * stopped is taken back; a task's webhooks are due at once when it has ended, one attempt each.
 */

/** The status codes of tasks that a run has not ended; a run's end brings its own. */
export const STATE_CODES = {
  delayed: 40602,
  queued: 40602,
  running: 40601,
  cancelled: 40901,
} as const satisfies Partial<Record<StoredState, StatusCode>>;

/** The state in which an accepted task begins. */
export function stateAtPost(
  { startAt }: Pick<NewTask, "startAt">,
  createdAt: number,
): "queued" | "delayed" {
  return startAt !== null && startAt > createdAt ? "delayed" : "queued";
}

/** How clients see a task that waits or runs; null for one that has ended. */
export function openStateOf(state: StoredState): "queued" | "running" | null {
  switch (state) {
    case "delayed":
    case "queued":
      return "queued";
    case "running":
      return "running";
    case "completed":
    case "failed":
    case "cancelled":
      return null;
  }
}

/**
 * Decides whether a task is cancelled that its client wants to be; `undefined`: there is no such task of its account. With
 * the task ends the lease that is held of it, or that ran out and might be revived: its worker is told.
 */
export function decideCancel(
  state: StoredState | undefined,
): "cancelled" | "cancelled before" | "finished" | "unknown" {
  if (state === undefined) return "unknown";
  if (state === "cancelled") return "cancelled before";
  return canMove(state, "cancelled") ? "cancelled" : "finished";
}

/**
 * Decides whether a task is erased that the operator names; `undefined`: there is none. `isToBeSent`: a webhook of it is
 * open; `hasWebhooks`: also such a one is meant.
 */
export function decideErasure(
  state: StoredState | undefined,
  { isToBeSent, hasWebhooks }: { readonly isToBeSent: boolean; readonly hasWebhooks: boolean },
): "erased" | "running" | "to be sent" | "unknown" {
  if (state === undefined) return "unknown";
  if (state === "running") return "running";
  return isToBeSent && !hasWebhooks ? "to be sent" : "erased";
}
