import { stateAtPost, type NewTask } from "../domain/task/task.ts";
import type { ClaimedTask, TaskPost, TaskPostOutcome } from "../store/store.ts";
import type { ClaimCredit } from "./claim-credit.ts";
import type { Runner } from "./runner.ts";

/** The tasks and accounts that changed since a claim or a post began, which may have started them just before. */
export interface ClaimUnderWay {
  readonly cancelled: Set<string>;
  readonly suspended: Set<number>;
}

/** The queue of a type, as far as claims know it, and its runs. */
export interface TypeQueue {
  readonly type: string;
  runner: Runner;
  retries: number;
  running: number;
  /** Runs that have ended and are not on disk yet. */
  recording: number;
  readonly credit: ClaimCredit;
  readonly claims: Set<ClaimUnderWay>;
}

/** Slots of a type that are reserved for tasks of a post. */
export interface Starts extends ClaimUnderWay {
  readonly queue: TypeQueue;
  readonly tasks: readonly NewTask[];
}

/** Reserves free slots for the tasks of a post; those with the highest priority first. */
export function reserveStarts(
  queues: ReadonlyMap<string, TypeQueue>,
  { accepted, createdAt }: TaskPost,
): readonly Starts[] {
  const due = accepted.filter((task) => stateAtPost(task, createdAt) === "queued");
  return [...Map.groupBy(due, ({ type }) => type)].flatMap(([type, tasks]) => {
    const queue = queues.get(type);
    if (queue === undefined || queue.recording > queue.runner.concurrency) return [];
    const slots = queue.credit.reserve(tasks.length, queue.running);
    if (slots === 0) return [];
    const first = tasks.toSorted((a, b) => b.priority - a.priority).slice(0, slots);
    const starts: Starts = { queue, tasks: first, cancelled: new Set(), suspended: new Set() };
    queue.claims.add(starts);
    return [starts];
  });
}

/** The tasks that an insert has started, by their ids, as a claim returns them. */
export function startedTasks(
  { accepted, starting, accountId, createdAt, traceText }: TaskPost,
  outcome: TaskPostOutcome,
): ReadonlyMap<string, ClaimedTask> {
  const seqs = outcome.kind === "inserted" ? (outcome.started ?? []) : [];
  const tasks = accepted.filter(({ id }) => starting?.has(id));
  return new Map(
    seqs.flatMap((seq, i) => {
      const task = tasks[i];
      if (task === undefined) return [];
      const { id, type, tag, marketplace, inputText, startAt } = task;
      const of = { seq, id, accountId, type, tag, marketplace, inputText, traceText };
      const queuedAt = Math.max(createdAt, startAt ?? 0);
      return [[id, { ...of, queuedAt, runs: 1, failures: 0 }] as const];
    }),
  );
}
