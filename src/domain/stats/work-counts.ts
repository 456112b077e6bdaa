import type { CountedWord, EverWord } from "./work-changes.ts";

/**
 * The number of tasks in each state and of ready ones; of deliveries that are retried, and of those that never will be;
 * and the size of everything.
 */
export interface WorkCounts {
  /** Tasks that may run now. */
  readonly queued: number;
  /** Queued tasks that may not start yet: clients see them as queued. */
  readonly delayed: number;
  readonly running: number;
  readonly completed: number;
  readonly failed: number;
  readonly cancelled: number;
  readonly ready: number;
  /** Deliveries that failed and are being retried. */
  readonly retrying: number;
  /** Deliveries that are given up or refused now: neither sent again since, nor erased. */
  readonly undelivered: number;
  /** The size of the texts of all tasks, in UTF-8, with the overhead of each. */
  readonly bytes: number;
}

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
