import { stateAtPost } from "../../domain/task/task.ts";
import type { SubmitOptions } from "../common/group-commit.ts";
import {
  CLIENT_WRITE,
  LOCKS_UNNAMED,
  type News,
  ONE_ROW,
  STEP_WRITE,
  type TaskRef,
  WHOLE_TABLES,
  type WriteRule,
  type WriteRules,
  idOf,
  rows,
} from "../common/write-rule.ts";
import type { Audited, AuditEntry, LeaseEnd, TaskPost } from "../store.ts";
import { accessRequestRules } from "./access-requests.ts";
import { accountErasureRules } from "./account-erasure.ts";
import { accountRules } from "./accounts.ts";
import { auditRules } from "./audit.ts";
import { clockRules } from "./clock.ts";
import { deliveryRules } from "./deliveries.ts";
import { deliveryPauseRules } from "./delivery-pauses.ts";
import { queueRules } from "./queue.ts";
import { redeliveryOrderRules } from "./redelivery-orders.ts";
import { retentionRules } from "./retention.ts";
import { sessionRules } from "./sessions.ts";
import { suspensionRules } from "./suspensions.ts";
import { taskErasureRules } from "./task-erasure.ts";
import { workerRules } from "./workers.ts";

// A claim requests one task for each free slot and mostly gets a few. With the full weight each claim had a commit of its
// own, and claims filled the backlog: with 1,000 types, 944 of 960 posts of 100 tasks were refused (measured).
const PLACES_PER_ROW = 8;

const seqOf = ({ seq }: { readonly seq: number }): readonly number[] => [seq];

/**
 * All writes of the store: the writes of `store/sql/` by their nouns, and those with a hot path. On PostgreSQL every batch locks tasks in the same order, which prevents deadlocks: first the
 * tasks that its operations name, by number; then their dependent rows; last the claimed tasks, without waiting. An
 * operation that waits for tasks which it does not name has the weight of a batch, so it gets a batch of its own.
 */
export const WRITES = {
  ...accountRules,
  ...suspensionRules,
  ...accountErasureRules,
  ...accessRequestRules,
  ...sessionRules,
  ...workerRules,
  ...taskErasureRules,
  ...deliveryRules,
  ...deliveryPauseRules,
  ...redeliveryOrderRules,
  ...queueRules,
  ...clockRules,
  ...retentionRules,
  ...auditRules,

  insertTasks: {
    weight: weightOfPost,
    news({ accepted, createdAt, starting }, outcome) {
      if (outcome.kind !== "inserted") return {};
      const started = outcome.started === undefined ? undefined : starting;
      const queued = accepted.filter(
        (task) => stateAtPost(task, createdAt) === "queued" && started?.has(task.id) !== true,
      );
      return { types: [...new Set(queued.map(({ type }) => type))] };
    },
  },
  collectTask: { weight: CLIENT_WRITE },
  cancelTask: {
    weight: CLIENT_WRITE,
    locksEach: (task) => [idOf(task)],
    news: ({ id }, outcome) => ({ ended: outcome === "cancelled" ? [id] : [] }),
  },
  cancelTasks: {
    weight: ({ ids }) => ({ weight: ids.length, mayShed: true }),
    locksEach: ({ ids }) => ids,
    news: (_, { queued, running }) => ({ ended: [...queued, ...running] }),
  },
  claimTasks: {
    weight: ({ max }) => rows(max),
    postgresWeight: ({ max }) => claimOf(max),
    waitsForNone: true,
  },
  finishTask: {
    locks: seqOf,
    // A node drops its run of an ended task, so a task that runs on another node by now must not be in the notification.
    news: ({ id }, lanes) => (lanes === null ? {} : { lanes, ended: id === undefined ? [] : [id] }),
  },
  retryTask: { locks: seqOf },
  requeueTasks: {
    postgresWeight: (which) => ("of" in which ? LOCKS_UNNAMED : ONE_ROW),
    locks: (which) => ("of" in which ? [] : seqOf(which)),
  },
  releaseTask: { locks: seqOf },
  releaseDelayed: { weight: ({ max }) => rows(max), waitsForNone: true },
  expireQueued: {
    weight: STEP_WRITE,
    postgresWeight: LOCKS_UNNAMED,
    news: (_, { tasks, lanes }) => ({ lanes, ended: tasks.map(idOf) }),
  },
  noteProgress: { locks: (runs) => runs.map(idOf) },
  // Never refused: workers hold the tasks already, and a refusal would cost more than the write.
  claimLeases: {
    weight: ({ max }) => rows(max),
    postgresWeight: ({ max }) => claimOf(max),
    waitsForNone: true,
  },
  extendLeases: {
    weight: ({ leases }) => rows(leases.length),
    locks: ({ leases }) => leases.map(idOf),
  },
  endLeases: {
    weight: ({ ends }) => rows(ends.reduce((sum, end) => sum + weightOfEnd(end), 0)),
    locks: ({ ends }) => ends.map(idOf),
    news({ ends }, results) {
      const ended = ends.filter(
        ({ sequel }, i) => sequel.kind === "finish" && results[i]?.isNew === true,
      );
      return { lanes: results.flatMap(({ lanes }) => lanes), ended: ended.map(idOf) };
    },
  },
  resumeLeases: { weight: WHOLE_TABLES },
  claimAttempts: {
    weight: ({ lanes }) => rows(placesOf(lanes)),
    postgresWeight: ({ lanes }) => claimOf(placesOf(lanes)),
    waitsForNone: true,
  },
  recordAttempt: {},
  foldTraffic: { weight: STEP_WRITE },
  reclaimSpace: {},
  tryWrite: {},
} satisfies WriteRules;

export type WriteName = keyof typeof WRITES;

// Keyed by the names of writes, each with functions of that write's own arguments and result.
const RULES: Readonly<Record<string, WriteRule<never, never>>> = WRITES;

/** The weight of an operation in a batch and in the backlog. */
export function submitOptionsOf(
  store: "sqlite" | "postgres",
  name: string,
): (args: unknown) => SubmitOptions {
  const { weight = ONE_ROW, postgresWeight = weight } = RULES[name] ?? {};
  const own = store === "postgres" ? postgresWeight : weight;
  return typeof own === "function" ? (args) => own(args as never) : () => own;
}

/** The audit entry of an operation; null if it carries none, or had no effect. */
export function entryOf(
  name: string,
  { args, value }: { readonly args: unknown; readonly value: unknown },
): AuditEntry | null {
  const hasEffect = RULES[name]?.hasEffect;
  if (hasEffect === undefined) return null;
  // Every write with this rule takes an object.
  const { audit } = args as Audited;
  return audit !== undefined && hasEffect(value as never, args as never) ? audit : null;
}

/** The names of the writes that {@link entryOf} knows. */
export const AUDITED_WRITES = Object.keys(RULES).filter(
  (name) => RULES[name]?.hasEffect !== undefined,
);

/** The tasks that an operation names; null for a write without tasks. `each`: one statement for each operation locks them. */
export function locksOf(
  name: string,
): { readonly refsOf: (args: never) => readonly TaskRef[]; readonly each: boolean } | null {
  const { locks, locksEach } = RULES[name] ?? {};
  const refsOf = locks ?? locksEach;
  return refsOf === undefined ? null : { refsOf, each: locks === undefined };
}

/** True for a write that skips rows which other transactions have locked. */
export function waitsForNone(name: string): boolean {
  return RULES[name]?.waitsForNone === true;
}

/** The notification of an operation to other nodes. */
export function newsOf(name: string, args: unknown, value: unknown): News | undefined {
  return RULES[name]?.news?.(args as never, value as never);
}

/** The weight of a claim of at most so many tasks. */
function claimOf(places: number): SubmitOptions {
  return rows(Math.ceil(places / PLACES_PER_ROW));
}

function placesOf(lanes: readonly { readonly fresh: number; readonly retries: number }[]): number {
  return lanes.reduce((sum, lane) => sum + lane.fresh + lane.retries, 0);
}

function weightOfPost({ accepted, refused, idempotency }: TaskPost): SubmitOptions {
  let weight = idempotency === null ? 0 : 1 + pagesOf(idempotency.answerText);
  for (const task of accepted) weight += weightOfTask(task);
  for (const task of refused) weight += weightOfTask(task);
  return { weight, mayShed: true };
}

// A page of text weighs as much as a row, so that the limits of batch and backlog bound their bytes too.
function weightOfTask(task: {
  readonly dataText: string;
  readonly inputText: string | null;
}): number {
  return 1 + pagesOf(task.dataText, task.inputText ?? "");
}

function weightOfEnd({ sequel }: LeaseEnd): number {
  if (sequel.kind !== "finish") return 1;
  return 1 + pagesOf(sequel.resultText ?? "", sequel.errorText ?? "");
}

function pagesOf(...texts: readonly string[]): number {
  return Math.floor(texts.reduce((sum, text) => sum + text.length, 0) / 4096);
}
