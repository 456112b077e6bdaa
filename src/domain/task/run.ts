import { MINUTE_MS } from "../clock/duration.ts";
import { isJsonObject, toPlainNumber } from "../json/json.ts";
import { type Rule, rule } from "../rule.ts";
import { isPlainText } from "../text.ts";

const FIRST_WAIT_MS = 1000;
const WAIT_MS_MAX = MINUTE_MS;

/** The sequel of a run that failed or timed out: another run at a time, or the end. */
export type RunDecision =
  | { readonly kind: "again"; readonly startAt: number }
  | { readonly kind: "final" };

/**
 * Decides whether a failed run is tried again (runners.md): `retries` times, 1 s after the first failure, with a wait
 * that doubles up to 60 s. Runs lost in a crash of the daemon are not failures and use up no retries.
 */
export function decideRun(facts: {
  readonly failuresBefore: number;
  readonly retries: number;
  readonly endedAt: number;
}): RunDecision {
  const { failuresBefore, retries, endedAt } = facts;
  if (failuresBefore >= retries) return { kind: "final" };
  const waitMs = Math.min(FIRST_WAIT_MS * 2 ** failuresBefore, WAIT_MS_MAX);
  return { kind: "again", startAt: endedAt + waitMs };
}

/** A program and its arguments: never a shell line, and nothing in it is expanded. */
export type CommandLine = readonly [program: string, ...args: string[]];

/** The progress of a run, as its worker or command reports it. It is only in memory, not worth a write. */
export interface TaskProgress {
  /** From 0 to 1. */
  readonly progress: number;
  readonly note: string | null;
}

interface WrittenProgress {
  readonly progress: number;
  readonly note?: string | null;
}

export const PROGRESS_NOTE_MAX = 255;

/** Reads `{"progress": 0.5, "note": "halfway"}`; null for anything else. Other members are ignored. */
export function parseProgress(value: unknown): TaskProgress | null {
  if (!isJsonObject(value)) return null;
  const progress = toPlainNumber(value["progress"]);
  const note = value["note"] ?? null;
  if (typeof progress !== "number" || !(progress >= 0 && progress <= 1)) return null;
  if (note !== null && !isPlainText(note, PROGRESS_NOTE_MAX)) return null;
  // `+ 0` makes the zero of a reported -0 a plain one.
  return { progress: progress + 0, note };
}

export const PROGRESS: Rule<TaskProgress, WrittenProgress> = rule({
  takes:
    `an object with progress, a number from 0 to 1, and optionally note, text of at most ${PROGRESS_NOTE_MAX} ` +
    "characters without control characters",
  hint: "PROGRESS",
  schema: { type: "object" },
  read: parseProgress,
});
