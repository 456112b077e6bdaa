import { isDeepStrictEqual } from "node:util";

import { z } from "zod";

import { LEASE_LOSSES_MAX } from "../../src/domain/lease/lease.ts";
import {
  leaseLength,
  type LeaseRule,
  type SeenAsk,
  type SeenCancel,
  type TaskHistory,
} from "./lease-judge.ts";
import type { LostClaim } from "./ledger.ts";

/**
 * A task as it stands in the database when all is over. Times are epoch milliseconds, results and errors JSON texts.
 */
export const shownTask = z.object({
  id: z.string(),
  type: z.string(),
  tag: z.string().nullable(),
  state: z.string(),
  code: z.number(),
  runs: z.number(),
  createdAt: z.number(),
  /** Null for a task that has not ended. */
  completedAt: z.number().nullable(),
  resultText: z.string().nullable(),
  errorText: z.string().nullable(),
});

export type ShownTask = Readonly<z.infer<typeof shownTask>>;

/** Selects each {@link ShownTask}. */
export const SHOWN_TASKS = `
  SELECT t.id, t.type, t.tag, t.state, t.status_code AS code, t.runs, t.created_at AS createdAt,
    t.completed_at AS completedAt, r.result_text AS resultText, r.error_text AS errorText
  FROM tasks AS t LEFT JOIN task_results AS r ON r.task_seq = t.seq`;

/** How a task of the daemon's own runners must end, unless it is cancelled. */
export type Expectation =
  | { readonly kind: "completed"; readonly result: unknown }
  | { readonly kind: "failed"; readonly code: number };

export interface RunFacts {
  readonly expected: Expectation;
  readonly cancel: SeenCancel | null;
  /** Starts that were seen; null where none can be seen. */
  readonly starts: number | null;
  /** When the daemon was killed, in epoch milliseconds. */
  readonly killedAt: readonly number[];
  /** Runs that its type adds to a failed one. */
  readonly retries: number;
}

/**
 * Finds what is wrong with the end of a task that the daemon ran itself: it must end as it was posted to end; a start
 * that was seen is counted in `runs`, and nothing else is but what a kill of the daemon can have hidden.
 */
export function judgeOwnRun(task: ShownTask, facts: RunFacts): readonly string[] {
  const { id, runs, state } = task;
  const { expected, cancel, starts, killedAt, retries } = facts;
  const unasked = wrongCancel(task, cancel).map((fault) => `${id}: ${fault}`);
  if (state === "cancelled" || unasked.length > 0) return unasked;
  const kills = killedAt.filter((at) => at >= task.createdAt && at <= (task.completedAt ?? at));
  const runsMin = starts ?? 1;
  // A failed run is followed by others; those that a kill hid come on top.
  const runsMax = (starts ?? 1 + (expected.kind === "failed" ? retries : 0)) + kills.length;
  return [
    ...unexpectedEnd(task, expected),
    ...(runs < runsMin ? [`${id} was started ${runsMin} times, and runs is ${runs}`] : []),
    ...(runs > runsMax ? [`${id} has ${runs} runs, of which ${runsMax} are explained`] : []),
  ];
}

function unexpectedEnd(
  { id, state, code, resultText, errorText }: ShownTask,
  expected: Expectation,
): readonly string[] {
  if (expected.kind === "failed") {
    if (state === "failed" && code === expected.code) return [];
    return [`${id} is ${state} with ${code}, and had to fail with ${expected.code}`];
  }
  if (state !== "completed") {
    return [`${id} is ${state} with ${code}, and had to be completed: ${errorText}`];
  }
  const isRight = isDeepStrictEqual(JSON.parse(resultText ?? "null"), expected.result);
  return isRight ? [] : [`${id} has another result than it had to: ${resultText?.slice(0, 100)}`];
}

export interface LeaseFacts {
  readonly history: TaskHistory;
  readonly rule: LeaseRule;
  readonly retries: number;
  readonly lostClaims: readonly LostClaim[];
}

/**
 * Finds what is wrong with the end of a task that workers ran. Its result must be one that was brought with its newest
 * lease; a completion that was answered ok must be the one that is kept; an error must have a cause that was seen or,
 * after claims whose answers were lost, can have been; and `runs` must be the claims that were seen, less those that
 * were given back, plus at most the claims whose answers were lost in the task's time.
 */
export function judgeLeasedRun(task: ShownTask, facts: LeaseFacts): readonly string[] {
  return [
    ...lostCompletion(task, facts.history),
    ...wrongCancel(task, facts.history.cancel),
    ...(task.state === "completed" ? unexplainedResult(task, facts.history) : []),
    ...(task.state === "failed" ? unexplainedError(task, facts) : []),
    ...wrongRuns(task, facts),
  ].map((fault) => `${task.id}: ${fault}`);
}

function lostCompletion(
  { state, resultText }: ShownTask,
  { asks }: TaskHistory,
): readonly string[] {
  const kept = asks.find(({ what, outcome }) => what === "complete" && outcome === "ok");
  if (kept === undefined || (state === "completed" && resultText === kept.result)) return [];
  return [`its completion was answered ok, and it is ${state} with ${resultText?.slice(0, 100)}`];
}

function wrongCancel({ state }: ShownTask, cancel: SeenCancel | null): readonly string[] {
  if (state === "cancelled")
    return cancel === null ? ["is cancelled, and nobody asked for it"] : [];
  const isPromised = (cancel?.acknowledgedAt ?? null) !== null;
  return isPromised ? [`its cancelling was acknowledged, and it is ${state}`] : [];
}

function unexplainedResult({ resultText }: ShownTask, history: TaskHistory): readonly string[] {
  const brought = history.asks.filter((ask) => {
    return ask.what === "complete" && ask.result === resultText && ask.outcome !== "lost";
  });
  if (brought.length === 0) return [`nobody brought its result ${resultText?.slice(0, 100)}`];
  return brought.every((ask) => isOutdated(ask, history)) ? ["its result is an older lease's"] : [];
}

/** True when a newer lease than this one was handed out, before or after: both are wrong. */
function isOutdated({ leaseId }: SeenAsk, { claims }: TaskHistory): boolean {
  const own = claims.find((claim) => claim.leaseId === leaseId);
  return claims.some(({ expiresAt }) => expiresAt > (own?.expiresAt ?? Infinity));
}

const errorOf = z.object({ message: z.string() });

function unexplainedError(
  task: ShownTask,
  { history, rule, retries }: LeaseFacts,
): readonly string[] {
  const { message } = errorOf.parse(JSON.parse(task.errorText ?? "{}"));
  const fails = history.asks.filter(({ what, outcome }) => what === "fail" && outcome !== "lost");
  const own = fails.find((ask) => ask.message === message);
  const endedAt = task.completedAt ?? Infinity;
  // The first unseen claim may have been at the creation of the task.
  const claimedAt = history.claims.map(({ expiresAt }) => expiresAt - leaseLength(rule));
  const firstAt = Math.min(task.createdAt, ...claimedAt);
  const timeouts = Math.floor(Math.max(0, endedAt - firstAt) / rule.timeoutMs);
  if (own !== undefined) {
    if (isOutdated(own, history)) return ["its error is an older lease's"];
    const failures = new Set(fails.map(({ leaseId }) => leaseId)).size + timeouts;
    const isFinal = own.retry === false || (own.retry === undefined && failures > retries);
    return isFinal ? [] : [`it failed for good, and had to be run again: ${message}`];
  }
  if (task.code === 50401) return timeouts > 0 ? [] : ["it timed out before its time"];
  const isGivenUp = task.runs >= LEASE_LOSSES_MAX && message.includes("vanished");
  return isGivenUp ? [] : [`nobody brought its error: ${message}`];
}

function wrongRuns(task: ShownTask, facts: LeaseFacts): readonly string[] {
  const { claims, asks } = facts.history;
  const leases = new Set(claims.map(({ leaseId }) => leaseId));
  const given = asks.filter(({ what, leaseId }) => what === "release" && leases.has(leaseId));
  const back = (isSure: boolean): number => {
    const released = given.filter((ask) => isReleased(ask, { isSure, facts }));
    return new Set(released.map(({ leaseId }) => leaseId)).size;
  };
  const runsMin = leases.size - back(false);
  const runsMax = leases.size - back(true) + hiddenClaims(task, facts);
  if (task.state === "cancelled" && task.runs >= runsMin) return [];
  if (task.runs < runsMin) return [`it was claimed ${runsMin} times, and runs is ${task.runs}`];
  if (task.runs <= runsMax) return [];
  return [`it has ${task.runs} runs, of which ${runsMax} are explained`];
}

// A task that is given back after its lease expired has used its run; a release without a response may have counted or
// not.
function isReleased(
  { leaseId, outcome, answeredAt }: SeenAsk,
  { isSure, facts }: { readonly isSure: boolean; readonly facts: LeaseFacts },
): boolean {
  if (!isSure) return outcome !== "lost";
  const claim = facts.history.claims.find((each) => each.leaseId === leaseId);
  return outcome === "ok" && (answeredAt ?? Infinity) < (claim?.expiresAt ?? 0);
}

function hiddenClaims(task: ShownTask, { lostClaims }: LeaseFacts): number {
  return lostClaims.filter(({ types, from, to }) => {
    const isInTime = to >= task.createdAt && from <= (task.completedAt ?? Infinity);
    return isInTime && types.includes(task.type);
  }).length;
}
