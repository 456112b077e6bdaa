import type {
  LeaseBeat,
  LeaseCompletion,
  LeaseFailure,
  LeaseOutcome,
  LeaseRef,
} from "../domain/lease/lease.ts";
import type { LeasedTask } from "../store/store.ts";

/**
 * The engine's services for the worker protocol (contract §7); the composition root gives them. What it answers is on
 * disk. Outcomes come in the order of the request; a lease that was given to another worker is lost to this one.
 */
export interface WorkerDesk {
  /**
   * Claims for a worker. When nothing is queued it waits, for `waitMs` at most, and not for a client that has
   * disconnected.
   */
  claim(order: {
    readonly workerId: number;
    /** Configured worker types, without duplicates. */
    readonly types: readonly string[];
    readonly max: number;
    readonly waitMs: number;
    readonly gone: AbortSignal;
  }): Promise<readonly LeasedTask[]>;
  heartbeat(workerId: number, beats: readonly LeaseBeat[]): Promise<readonly LeaseOutcome[]>;
  complete(
    workerId: number,
    completions: readonly LeaseCompletion[],
  ): Promise<readonly LeaseOutcome[]>;
  fail(workerId: number, failures: readonly LeaseFailure[]): Promise<readonly LeaseOutcome[]>;
  release(workerId: number, leases: readonly LeaseRef[]): Promise<readonly LeaseOutcome[]>;
  /** True while the daemon stops: workers should finish what they hold and claim no more. */
  readonly isDraining: boolean;
}
