import { KEY_PREFIX, WORKER_TOKEN_PREFIX } from "../account/account.ts";
import { HOUR_MS } from "../clock/duration.ts";
import { type Rule, textRule } from "../rule.ts";
import type { TaskProgress } from "../task/run.ts";
import type { StoredState } from "../task/task.ts";

/**
 * A lease is held by an external worker while it runs a task, as in worker-protocol.md. Each claim makes a new lease, and only the
 * newest lease of a task can end its run: for an older lease the response is `lost`.
 *
 *     held ──→ completed, failed, released   by the worker
 *       │ ↑
 *       │ └─ revived by a late heartbeat, while nobody else has claimed the task
 *       ├────→ expired                       no heartbeat in time: the task is queued again
 *       ├────→ timed_out                     the type's timeout, whatever the heartbeats
 *       └────→ cancelled                     by the client; or its account was disabled: the task is queued again
 */
export type LeaseEnding =
  | "completed"
  | "failed"
  | "released"
  | "expired"
  | "timed_out"
  | "cancelled";

/** The names by which a worker refers to a lease. */
export interface LeaseRef {
  readonly id: string;
  readonly leaseId: string;
}

/** It counted; a newer lease or the daemon has the task; or the client cancelled the task. */
export type LeaseOutcome = (typeof LEASE_OUTCOMES)[number];

export const LEASE_OUTCOMES = ["ok", "lost", "cancelled"] as const;

/** A sign of life for a lease, with the progress of its run. */
export interface LeaseBeat extends LeaseRef {
  readonly progress: TaskProgress | null;
}

export interface LeaseCompletion extends LeaseRef {
  /** JSON text. */
  readonly resultText: string;
}

export interface LeaseFailure extends LeaseRef {
  readonly message: string;
  /** JSON text, `null` when the worker gave none. */
  readonly detailText: string;
  /** True runs it again, false never does, null follows the type. */
  readonly retry: boolean | null;
}

/** Workers that vanish so often with a task are most likely ended by it. The type's `retries` do not count here. */
export const LEASE_LOSSES_MAX = 5;

/** True if the task ends because its lease number `lossesBefore` + 1 ran out; otherwise it runs again. */
export function isLastLoss(lossesBefore: number): boolean {
  return lossesBefore + 1 >= LEASE_LOSSES_MAX;
}

/** The shortest and the longest time that a lease may hold without a heartbeat. */
export const LEASE_MS_MIN = 1000;
export const LEASE_MS_MAX = HOUR_MS;

/** The most tasks of one claim, and of one request that completes or fails them (worker-protocol.md). */
export const LEASE_BATCH_MAX = 100;

/** The longest that a claim may wait for a task (worker-protocol.md). */
export const CLAIM_WAIT_SECONDS_MAX = 30;

/**
 * Decides what an action does to a lease. A store reads the newest lease of the task in the step that writes the
 * decision, and gives `undefined` if the id is unknown or belongs to another worker: both get the same response.
 */

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

/** `revive` gives the task back to the lease first; `stop` ends the lease and queues the task again. */
export type BeatDecision = "extend" | "revive" | "stop" | "lost" | "cancelled";

export function decideBeat(
  lease: LeaseFacts | undefined,
  { now, isSuspended }: { readonly now: number; readonly isSuspended: boolean },
): BeatDecision {
  if (lease === undefined) return "lost";
  if (lease.state === "cancelled") return "cancelled";
  // Its worker is notified now: otherwise the account may be enabled again by then, and the run would have gone on.
  if (isSuspended) return isHeld(lease) ? "stop" : "lost";
  if (isHeld(lease)) return "extend";
  // After its timeout it would be revived only to end immediately.
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

/** True for an expired lease whose task was not claimed again. */
function isWaiting({ ending, state }: LeaseFacts): boolean {
  return ending === "expired" && state === "queued";
}

/** True for a lease that ended because its account was disabled, while its task was not claimed again. */
function isStopped({ ending, state }: LeaseFacts): boolean {
  return ending === "cancelled" && state === "queued";
}

/** A worker that reports after all did not vanish, and a reported failure shows that the task does not end workers. */
export function lossesAfter(
  { ending: before, losses }: Pick<LeaseFacts, "ending" | "losses">,
  ending: LeaseEnding | null,
): number {
  if (ending === "failed") return 0;
  return losses + (ending === "expired" ? 1 : 0) - (before === "expired" ? 1 : 0);
}

/** A lease that was stopped no longer counted as a run, and counts again once it is revived. */
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

export interface LeaseTimes {
  readonly claimedAt: number;
  readonly leaseMs: number;
  readonly deadlineAt: number;
}

/**
 * The times of a lease that is held when the daemon starts. It keeps the rest of its timeout, which is never more than
 * the whole timeout, as the clock may have been set back. But it gets at least enough time for a worker to report what
 * it finished while the daemon was down. The time from the claim to the deadline stays the timeout.
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

/** The name of a type of tasks, wherever it is written. Names are compared exactly. */
export const TYPE_NAME: Rule<string> = textRule({
  takes: "1 to 64 of the characters A-Z a-z 0-9 . _ -",
  hint: "TYPE",
  schema: { type: "string", pattern: "^[A-Za-z0-9._-]{1,64}$" },
  read: (text) => (/^[A-Za-z0-9._-]{1,64}$/.test(text) ? text : null),
});

/** A name of a type that does not begin like a token or a key, which would be a secret: no fault repeats it. */
export const WORKER_NAME: Rule<string> = textRule({
  ...TYPE_NAME,
  takes: `${TYPE_NAME.takes}, but not a token or a key`,
  hint: "NAME",
  isSecret: true,
  read(text) {
    const isSecret = text.startsWith(WORKER_TOKEN_PREFIX) || text.startsWith(KEY_PREFIX);
    return isSecret || TYPE_NAME.parse(text).kind === "fault" ? null : text;
  },
});

/** The name of a node, for people and for what it leaves on its machine: as the name of a type. */
export const NODE_NAME: Rule<string> = { ...TYPE_NAME, hint: "NAME" };

/** The name of a node that was given none: its machine's, as far as that can be one. */
export function nodeNameOf(machine: string): string {
  const name = machine.replaceAll(/[^A-Za-z0-9._-]/g, "-").slice(0, 64);
  return name === "" ? "node" : name;
}
