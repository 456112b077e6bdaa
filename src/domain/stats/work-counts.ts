import type { TaskState } from "../task/task.ts";
import type { CountedWord } from "./work-changes.ts";

/** How much there is of everything, for an account or for all. */
export type WorkCounts = Readonly<Record<CountedWord, number>>;

/** A count as it is kept. It stays, as 0, when everything that it counts is erased. */
export interface KeptCount {
  /** A database may hold words of earlier versions too, which nobody counts any more. */
  readonly word: string;
  readonly count: number;
}

const NOTHING: WorkCounts = {
  queued: 0,
  delayed: 0,
  running: 0,
  completed: 0,
  failed: 0,
  cancelled: 0,
  ready: 0,
  retrying: 0,
  undelivered: 0,
  bytes: 0,
};

export function toWorkCounts(kept: readonly KeptCount[]): WorkCounts {
  const counts = { ...NOTHING };
  for (const { word, count } of kept) if (isCounted(word)) counts[word] = count;
  return counts;
}

function isCounted(word: string): word is CountedWord {
  return Object.hasOwn(NOTHING, word);
}

/** The tasks in each state as clients see it: to them a delayed task is a queued one. */
export function toTaskCounts(counts: WorkCounts): Readonly<Record<TaskState, number>> {
  const { queued, delayed, running, completed, failed, cancelled } = counts;
  return { queued: queued + delayed, running, completed, failed, cancelled };
}
