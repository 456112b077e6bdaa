import type { ClaimedAttempt, Lane, LaneRef } from "../store/store.ts";
import type { AttemptClass, Load } from "./lane-places.ts";

/** The load of claimed attempts, and the work that a claim leaves. */

/** The size of the body, or more. */
export function bytesOf({ task, largeBytes }: ClaimedAttempt): number {
  if (largeBytes !== null) return largeBytes;
  return (task.inputText?.length ?? 0) + (task.resultText?.length ?? 0);
}

/** The class of an attempt: first or retry. */
export function classOf({ retry }: { readonly retry: number }): AttemptClass {
  return retry === 0 ? "fresh" : "retries";
}

/** The load of these attempts together. */
export function loadOf(attempts: readonly ClaimedAttempt[]): Load {
  const load = { fresh: 0, retries: 0, bytes: 0 };
  for (const attempt of attempts) {
    load[classOf(attempt)]++;
    load.bytes += bytesOf(attempt);
  }
  return load;
}

/** The result of a share: how many attempts were really started, how large they are, and what the lane has left. */
export interface ShareOutcome extends Load {
  readonly left: Lane;
}

/** The unique name of a lane. */
export function keyOf({ accountId, host }: LaneRef): string {
  return `${accountId} ${host}`;
}

export function nothingLeft({ accountId, host }: LaneRef): Lane {
  return { accountId, host, freshDueAt: null, retryDueAt: null };
}

/** A lane after the wall clock was set by so many milliseconds. */
export function movedLane({ freshDueAt, retryDueAt, ...lane }: Lane, byMs: number): Lane {
  const moved = (dueAt: number | null): number | null => (dueAt === null ? null : dueAt + byMs);
  return { ...lane, freshDueAt: moved(freshDueAt), retryDueAt: moved(retryDueAt) };
}
