import { LEASE_MS_MAX, LEASE_MS_MIN, type LeaseRef } from "../domain/lease/lease.ts";
import type { TaskProgress } from "../domain/task/run.ts";
import type { Runner } from "../run/runner.ts";

/** Types that share their places, of which `runner.concurrency` says how many there are. */
export interface Pool {
  readonly types: readonly string[];
  readonly runner: Runner;
}

/** Why a worker aborts a run. `cancelled` and `lost` come from the daemon, the others from the worker itself. */
type AbortReason = "cancelled" | "lost" | "stopping" | "refused";

/** A task whose lease the worker holds: its command runs, or its end is being reported. */
export class HeldRun implements LeaseRef {
  readonly id: string;
  readonly leaseId: string;
  /** The pool of its place. */
  readonly pool: Pool;
  /** How long the lease lasts after a heartbeat, as a worker estimates it. */
  readonly leaseMs: number;
  /** True when nothing of it runs any more and only the report is left to send. */
  hasEnded = false;
  /** When the next heartbeat is due, by the monotonic clock. */
  heartbeatDueAt: number;
  /** The last that the run reported. */
  progress: TaskProgress | null = null;
  /** Null while it may go on. */
  abortReason: AbortReason | null = null;
  readonly #abort = new AbortController();
  readonly signal = this.#abort.signal;

  constructor(facts: LeaseRef & Pick<HeldRun, "pool" | "leaseMs"> & { readonly now: number }) {
    this.id = facts.id;
    this.leaseId = facts.leaseId;
    this.pool = facts.pool;
    this.leaseMs = facts.leaseMs;
    this.heartbeatDueAt = facts.now + heartbeatEveryMs(facts.leaseMs);
  }

  /** Notes progress reported at `now`: the daemon gets it within a second, however seldom heartbeats are due. */
  noteProgress(progress: TaskProgress, now: number): void {
    this.progress = progress;
    this.heartbeatDueAt = Math.min(this.heartbeatDueAt, now + PROGRESS_WAIT_MS);
  }

  /** True when the daemon has taken the task back: it needs no heartbeat and no report. */
  get isTakenBack(): boolean {
    return this.abortReason === "cancelled" || this.abortReason === "lost";
  }

  /** Breaks the run off. The daemon's state of the lease outranks the worker's own reasons. */
  abort(reason: AbortReason): void {
    const isDaemons = reason === "cancelled" || reason === "lost";
    if (this.abortReason === null || isDaemons) this.abortReason = reason;
    this.#abort.abort(new DOMException(EXPLANATIONS[reason], "AbortError"));
  }
}

const EXPLANATIONS: Readonly<Record<AbortReason, string>> = {
  cancelled: "The task was cancelled.",
  lost: "The task is not this worker's any more: its lease ran out, or its timeout has passed.",
  stopping: "The worker stops.",
  refused: "The daemon refuses this worker.",
};

// At most one request a second, however often runs report progress.
const PROGRESS_WAIT_MS = 1000;

/** Three heartbeats to a lease: one may be lost and another be late. */
export function heartbeatEveryMs(leaseMs: number): number {
  return leaseMs / 3;
}

/**
 * How long a new lease lasts. The daemon gives its end by its own clock. The worker makes two estimates: from the time
 * in the response, which has a precision of a second, and from this machine's clock, which may be wrong. The shorter
 * one counts: it costs a few heartbeats at most. An estimate that is over already says nothing.
 */
export function estimateLeaseMs(facts: {
  readonly expiresAt: number;
  /** The time in the response's Date header; null without one. */
  readonly answeredAt: number | null;
  readonly now: number;
}): number {
  const { expiresAt, answeredAt, now } = facts;
  const estimates = [expiresAt - now, ...(answeredAt === null ? [] : [expiresAt - answeredAt])];
  const possible = estimates.filter((ms) => ms > 0);
  return Math.min(Math.max(Math.min(...possible, LEASE_MS_MAX), LEASE_MS_MIN), LEASE_MS_MAX);
}
