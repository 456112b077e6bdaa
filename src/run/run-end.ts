import type { HealthRecord } from "../deliver/health-record.ts";
import type { SteadyClock } from "../domain/clock/clock.ts";
import { retentionEnd, type RetentionEnd } from "../domain/clock/service-clock.ts";
import type { Observer } from "../domain/observer.ts";
import { statusMessage } from "../domain/status.ts";
import type { TaskProgress } from "../domain/task/run.ts";
import type { LoopDeps } from "../store/loop.ts";
import type { RetryDeps } from "../store/retry.ts";
import type { ClaimedTask, Cluster, LaneRef, RunEnd } from "../store/store.ts";
import type { RunOutcome } from "./runner.ts";

export interface RunDeps extends RetryDeps, Pick<LoopDeps, "failed"> {
  readonly clock: SteadyClock;
  readonly cluster: Pick<Cluster, "self" | "isMember" | "isShared" | "holds" | "membership">;
  readonly retentionMs: number;
  readonly health: Pick<HealthRecord, "noteRun">;
  readonly observer?: Observer | undefined;
  /** The progress of running tasks by id, in memory only. Its size is bounded by the number of runs. */
  readonly progress: Map<string, TaskProgress>;
  /** A task has ended, and that is on disk. */
  readonly taskEnded: (id: string) => void;
  /** These lanes have an attempt due, and that is on disk. */
  readonly deliveriesDue: (lanes: readonly LaneRef[]) => void;
}

export function tellStart(
  { type, queuedAt }: Pick<ClaimedTask, "type" | "queuedAt">,
  { observer, clock }: Pick<RunDeps, "observer" | "clock">,
): void {
  observer?.start?.({ type, waitedMs: Math.max(0, clock.now() - queuedAt) });
}

/** When a run ended, and how long its task is kept from then on. */
export interface RunMoment {
  readonly endedAt: number;
  /** The same moment by the steady clock. */
  readonly steadyAt: number;
  readonly retentionMs: number;
}

export function runMoment(clock: SteadyClock, retentionMs: number): RunMoment {
  return { endedAt: clock.now(), steadyAt: clock.steady(), retentionMs };
}

/** The record of a completed run; `resultText` is JSON text. */
export function toCompletedEnd(resultText: string, moment: RunMoment): RunEnd {
  return { ...toEnd(moment), state: "completed", code: 20000, resultText, errorText: null };
}

/** A failed run as clients see it; `detailText` is JSON text. */
export interface RunFailure {
  readonly code: 50010 | 50401 | 50402;
  /** One sentence; the message of the code when it is empty. */
  readonly message: string;
  readonly detailText: string;
}

/** The record of a failed run: the code of status-codes.md and the error that a client sees. */
export function toFailedEnd(failure: RunFailure, moment: RunMoment): RunEnd {
  const { code, detailText } = failure;
  const message = JSON.stringify(failure.message === "" ? statusMessage(code) : failure.message);
  // Not parsed in between, so that the numbers in a worker's detail keep every digit.
  const errorText = `{"message":${message},"detail":${detailText}}`;
  return { ...toEnd(moment), state: "failed", code, resultText: null, errorText };
}

/** The record of a run whose own record the store rejected. */
export function toUnstoredEnd(moment: RunMoment): RunEnd {
  const message = "The result could not be stored.";
  return toFailedEnd({ code: 50010, message, detailText: "null" }, moment);
}

export function toRunEnd(
  outcome: Exclude<RunOutcome, { kind: "aborted" }>,
  moment: RunMoment,
): RunEnd {
  if (outcome.kind === "completed") return toCompletedEnd(outcome.resultText, moment);
  const code = outcome.kind === "timed_out" ? 50401 : 50010;
  const detailText = JSON.stringify(outcome.detail);
  return toFailedEnd({ code, message: outcome.message, detailText }, moment);
}

function toEnd({ endedAt, steadyAt, retentionMs }: RunMoment): RetentionEnd & { endedAt: number } {
  return { endedAt, ...retentionEnd({ at: endedAt, steadyAt }, retentionMs) };
}
