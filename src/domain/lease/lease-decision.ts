import type { StoredState } from "../task/task.ts";
import type { LeaseEnding } from "./lease.ts";

/**
 * Decides what happens to a lease when somebody acts on it. A store reads the newest lease of the task in the step that
 * writes the decision, and gives `undefined` when there is none by that id, or when it is another worker's: another
 * worker's lease and a lease that never existed get the same answer.
 */

/** A task's newest lease, and the task's state. */
export interface LeaseFacts {
  readonly state: StoredState;
  /** Null while it is held. */
  readonly ending: LeaseEnding | null;
  readonly expiresAt: number;
  /** When the type's timeout ends. */
  readonly deadlineAt: number;
  /** How often a lease of this task ran out, including this one. */
  readonly losses: number;
}

/**
 * A heartbeat decides on its lease: `extend` extends it; `revive` gives the task back to the lease first; `stop` ends
 * the lease instead and puts the task back into the queue.
 */
export type BeatDecision = "extend" | "revive" | "stop" | "lost" | "cancelled";

export function decideBeat(
  lease: LeaseFacts | undefined,
  { now, isAccountHeld }: { readonly now: number; readonly isAccountHeld: boolean },
): BeatDecision {
  if (lease === undefined) return "lost";
  if (lease.state === "cancelled") return "cancelled";
  // Its worker hears of it now: otherwise the account may be enabled again by then, and the run would have gone on.
  if (isAccountHeld) return isHeld(lease) ? "stop" : "lost";
  if (isHeld(lease)) return "extend";
  // After its timeout it would be revived only to end at once.
  return isWaiting(lease) && lease.deadlineAt > now ? "revive" : "lost";
}

/**
 * An end decides on its lease: `end` ends it and its run; `revive` gives the task back to the lease first. In the other
 * cases the task stays as it is: `end in place` ends only the lease, because the task is in the queue already.
 */
export type LeaseEndDecision =
  | "end"
  | "revive"
  | "end in place"
  | "ended before"
  | "lost"
  | "cancelled";

export function decideLeaseEnd(
  lease: LeaseFacts | undefined,
  { how, now }: { readonly how: Exclude<LeaseEnding, "cancelled">; readonly now: number },
): LeaseEndDecision {
  if (lease === undefined) return "lost";
  if (lease.state === "cancelled") return "cancelled";
  if (lease.ending === how) return "ended before";
  const isByDaemon = how === "expired" || how === "timed_out";
  // A heartbeat may have come since the daemon looked.
  if (isHeld(lease)) return isByDaemon && lease.expiresAt > now ? "lost" : "end";
  if (isByDaemon) return "lost";
  if (isWaiting(lease)) return how === "released" ? "end in place" : "revive";
  return isStopped(lease) && how === "completed" ? "revive" : "lost";
}

function isHeld({ ending, state }: LeaseFacts): boolean {
  return ending === null && state === "running";
}

/** True for a lease that ran out, while nobody has claimed its task again. */
function isWaiting({ ending, state }: LeaseFacts): boolean {
  return ending === "expired" && state === "queued";
}

/**
 * True for a lease that ended because its account was disabled, while nobody has claimed its task again. Its worker may
 * have been about to bring the result, or may not have heard of it.
 */
function isStopped({ ending, state }: LeaseFacts): boolean {
  return ending === "cancelled" && state === "queued";
}

/**
 * How often leases of the task have run out once this one ends in this way, or is held again (null). A worker that is
 * heard after all did not vanish, and a worker that reports a failure shows that the task does not end workers.
 */
export function lossesAfter(
  { ending: before, losses }: Pick<LeaseFacts, "ending" | "losses">,
  ending: LeaseEnding | null,
): number {
  if (ending === "failed") return 0;
  return losses + (ending === "expired" ? 1 : 0) - (before === "expired" ? 1 : 0);
}

/**
 * How many more runs a task has when a lease is revived: the run that no longer counted, because the lease was stopped,
 * counts again. Its run began when it was claimed.
 */
export function runsRevived({ ending }: Pick<LeaseFacts, "ending">): 0 | 1 {
  return ending === "cancelled" ? 1 : 0;
}

/** When a lease ends after a sign of life: never later than its deadline. */
export function leaseExpiry(
  { leaseMs, deadlineAt }: { readonly leaseMs: number; readonly deadlineAt: number },
  now: number,
): number {
  return Math.min(now + leaseMs, deadlineAt);
}

/** When a lease was claimed, and how long it may hold. */
export interface LeaseTimes {
  readonly claimedAt: number;
  readonly leaseMs: number;
  readonly deadlineAt: number;
}

/**
 * The times of a lease that is held when the daemon starts. It keeps the rest of its timeout, which is never more than
 * the whole timeout, as the clock may have been set back. But it gets at least enough time for a worker to bring what
 * it finished while nobody listened. The time from the claim to the deadline stays the timeout.
 */
export function resumedLease(
  { claimedAt, leaseMs, deadlineAt }: LeaseTimes,
  now: number,
): { readonly claimedAt: number; readonly deadlineAt: number; readonly expiresAt: number } {
  const timeoutMs = deadlineAt - claimedAt;
  const wholeMs = Math.min(leaseMs, timeoutMs);
  const leftMs = Math.max(Math.min(deadlineAt - now, timeoutMs), wholeMs);
  const resumedDeadline = now + leftMs;
  return {
    claimedAt: resumedDeadline - timeoutMs,
    deadlineAt: resumedDeadline,
    expiresAt: now + wholeMs,
  };
}
