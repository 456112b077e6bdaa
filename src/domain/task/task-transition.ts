import type { StatusCode } from "../status.ts";
import { canMove, type NewTask, type StoredState } from "./task.ts";

/**
 * Some of the rules are guards and sums in a store's statements, because they would cost the hot path a read. The end
 * of a run counts only while its task is running. A claim counts the run, a retry counts the failure, and a run that
 * was released or stopped no longer counts. A task's webhooks are due at once when it has ended, one attempt each.
 */

/** The status codes of tasks that no run has ended; the end of a run brings its own. */
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
  return OPEN_STATES[state];
}

const OPEN_STATES: Readonly<Record<StoredState, "queued" | "running" | null>> = {
  delayed: "queued",
  queued: "queued",
  running: "running",
  completed: null,
  failed: null,
  cancelled: null,
};

/**
 * Decides whether a task is cancelled when its client wants it; `undefined` means that its account has no such task. A
 * lease that is held of the task, or that ran out and might be revived, ends with it: its worker is told.
 */
export function decideCancel(
  state: StoredState | undefined,
): "cancelled" | "cancelled before" | "finished" | "unknown" {
  if (state === undefined) return "unknown";
  if (state === "cancelled") return "cancelled before";
  return canMove(state, "cancelled") ? "cancelled" : "finished";
}

/**
 * Decides whether a task that the operator names is erased; `undefined` means that there is none. `isToBeSent` tells
 * that a webhook of it is open; `hasWebhooks` includes such a task.
 */
export function decideErasure(
  state: StoredState | undefined,
  { isToBeSent, hasWebhooks }: { readonly isToBeSent: boolean; readonly hasWebhooks: boolean },
): "erased" | "running" | "to be sent" | "unknown" {
  if (state === undefined) return "unknown";
  if (state === "running") return "running";
  return isToBeSent && !hasWebhooks ? "to be sent" : "erased";
}
