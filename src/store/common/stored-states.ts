import type { SearchedState } from "../../domain/task/task-search.ts";
import type { StoredState } from "../../domain/task/task.ts";

/** Every state that is stored. */
export const STORED_STATES: readonly StoredState[] = [
  "queued",
  "delayed",
  "running",
  "completed",
  "failed",
  "cancelled",
];

/** The stored states that are shown as this one. */
export function storedStates(state: SearchedState): readonly StoredState[] {
  if (state === "queued") return ["queued", "delayed"];
  if (state === "waiting") return ["queued"];
  return state === "ready" ? ["completed", "failed"] : [state];
}
