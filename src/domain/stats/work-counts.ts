import type { TaskState } from "../task/task.ts";
import type { CountedWord, EverWord } from "./work-changes.ts";

/** How much there is of everything, for an account or for all. */
export type WorkCounts = Readonly<Record<CountedWord, number>>;

/** An account's first steps, for those who begin. */
export interface FirstSteps {
  readonly hasPosted: boolean;
  readonly hasCompleted: boolean;
  readonly hasWebhook: boolean;
  readonly hasDelivered: boolean;
  readonly hasCollected: boolean;
}

/** A count as it is kept. It stays, as 0, when everything that it counts is erased. */
export interface KeptCount {
  readonly word: CountedWord | EverWord;
  readonly count: number;
}

export function toWorkCounts(kept: readonly KeptCount[]): WorkCounts {
  const counts: Record<CountedWord, number> = {
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
  for (const { word, count } of kept) if (!isEverWord(word)) counts[word] = count;
  return counts;
}

/** The tasks in each state as clients see it: to them a delayed task is a queued one. */
export function toTaskCounts(counts: WorkCounts): Readonly<Record<TaskState, number>> {
  const { queued, delayed, running, completed, failed, cancelled } = counts;
  return { queued: queued + delayed, running, completed, failed, cancelled };
}

function isEverWord(word: KeptCount["word"]): word is EverWord {
  return word.startsWith("ever_");
}

// Every accepted task has been counted as one of these, and no refused task has: those are `failed` from the start.
const ACCEPTED_WORDS: readonly CountedWord[] = [
  "queued",
  "delayed",
  "running",
  "completed",
  "cancelled",
  "ready",
];

export function toFirstSteps(kept: readonly KeptCount[]): FirstSteps {
  const words = new Set(kept.map(({ word }) => word));
  return {
    hasPosted: ACCEPTED_WORDS.some((word) => words.has(word)),
    hasCompleted: words.has("completed"),
    hasWebhook: words.has("ever_webhook"),
    hasDelivered: words.has("ever_delivered"),
    hasCollected: words.has("ever_collected"),
  };
}
