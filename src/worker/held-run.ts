import { LEASE_MS_MAX, LEASE_MS_MIN } from "../domain/lease/lease.ts";
import type { LeaseRef } from "../domain/lease/lease.ts";
import type { TaskProgress } from "../domain/task/progress.ts";

/** Why a worker stops a run. `cancelled` and `lost` are the daemon's word; the others are the worker's own end. */
export type StopReason = "cancelled" | "lost" | "stopping" | "refused";

/** A task that the worker holds a lease of: its command runs, or how it ended is being told. */
export class HeldRun implements LeaseRef {
  readonly id: string;
  readonly leaseId: string;
  /** How long the lease holds from a heartbeat on, as far as a worker can tell. */
  readonly leaseMs: number;
  /** True when nothing of it runs any more, and only the daemon is to be told. */
  hasEnded = false;
  /** When the next sign of life is due, by the monotonic clock. */
  heartbeatDueAt: number;
  readonly #abort = new AbortController();
  #progress: TaskProgress | null = null;
  #stopReason: StopReason | null = null;

  constructor(facts: LeaseRef & { readonly leaseMs: number; readonly now: number }) {
    this.id = facts.id;
    this.leaseId = facts.leaseId;
    this.leaseMs = facts.leaseMs;
    this.heartbeatDueAt = facts.now + heartbeatEveryMs(facts.leaseMs);
  }

  /** What the run said last of how far it is. */
  get progress(): TaskProgress | null {
    return this.#progress;
  }

  /** Notes what the run says at `now`: the daemon hears it within a second, however seldom signs of life are due. */
  noteProgress(progress: TaskProgress, now: number): void {
    this.#progress = progress;
    this.heartbeatDueAt = Math.min(this.heartbeatDueAt, now + PROGRESS_WAIT_MS);
  }

  /** Aborted when the run is to stop. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Why it is to stop; null while it is not. */
  get stopReason(): StopReason | null {
    return this.#stopReason;
  }

  /** True when the daemon has taken the task back: it needs no sign of life, and no word of its end. */
  get isTakenBack(): boolean {
    return this.#stopReason === "cancelled" || this.#stopReason === "lost";
  }

  /** Tells the run to stop. What the daemon says of the lease comes before the worker's own reasons. */
  stop(reason: StopReason): void {
    const isDaemons = reason === "cancelled" || reason === "lost";
    if (this.#stopReason === null || isDaemons) this.#stopReason = reason;
    this.#abort.abort();
  }
}

// One request a second at most, however often runs say something.
const PROGRESS_WAIT_MS = 1000;

/** Three beats to a lease: one may be lost, and another be late. */
export function heartbeatEveryMs(leaseMs: number): number {
  return leaseMs / 3;
}

/**
 * How long a new lease holds. The daemon says until when, by its own clock, so two estimates are made: against the
 * time that the answer bears, which is cut to the second, and against this machine's clock, which may be wrong. The
 * shorter one costs a few heartbeats at most; one that is over already says nothing.
 */
export function estimateLeaseMs(facts: {
  readonly expiresAt: number;
  /** The time in the answer's Date header; null where there is none. */
  readonly answeredAt: number | null;
  readonly now: number;
}): number {
  const { expiresAt, answeredAt, now } = facts;
  const estimates = [expiresAt - now, ...(answeredAt === null ? [] : [expiresAt - answeredAt])];
  const possible = estimates.filter((ms) => ms > 0);
  return Math.min(Math.max(Math.min(...possible, LEASE_MS_MAX), LEASE_MS_MIN), LEASE_MS_MAX);
}
