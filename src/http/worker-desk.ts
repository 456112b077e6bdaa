import type {
  LeaseBeat,
  LeaseCompletion,
  LeaseFailure,
  LeaseOutcome,
  LeaseRef,
} from "../domain/lease/lease.ts";
import type { LeasedTask } from "../store/store.ts";

/**
 * What the worker protocol (contract §7) asks of the engine; the composition root gives it. What it answers is on disk.
 * Outcomes come in the order asked; a lease that another worker was given is lost to this one.
 */
export interface WorkerDesk {
  /** Claims for a worker; where nothing is queued it waits for `waitMs` at most, and not for a client that is gone. */
  claim(order: {
    readonly workerId: number;
    /** Of the configured worker types, without repetition. */
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
