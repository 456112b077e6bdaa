import { isJsonObject, toPlainNumber } from "../json/json.ts";
import { rule, type Rule } from "../rule.ts";
import { isPlainText } from "../text.ts";

/**
 * The progress of a run, as its worker or command reports it. It is kept only in memory: it is not worth a write to
 * disk.
 */
export interface TaskProgress {
  /** From 0 to 1. */
  readonly progress: number;
  readonly note: string | null;
}

/** The same as it is written in JSON. */
interface WrittenProgress {
  readonly progress: number;
  readonly note?: string | null;
}

/** The most code points of a note. */
export const PROGRESS_NOTE_MAX = 255;

/**
 * Reads a progress report, `{"progress": 0.5, "note": "halfway"}`; null for anything else. Other members are ignored.
 */
export function parseProgress(value: unknown): TaskProgress | null {
  if (!isJsonObject(value)) return null;
  const progress = toPlainNumber(value["progress"]);
  const note = value["note"] ?? null;
  if (typeof progress !== "number" || !(progress >= 0 && progress <= 1)) return null;
  if (note !== null && !isPlainText(note, PROGRESS_NOTE_MAX)) return null;
  // `+ 0` makes the zero of a reported -0 a plain one.
  return { progress: progress + 0, note };
}

/** A progress report, by {@link parseProgress}. */
export const PROGRESS: Rule<TaskProgress, WrittenProgress> = rule({
  takes:
    `an object with progress, a number from 0 to 1, and optionally note, text of at most ${PROGRESS_NOTE_MAX} ` +
    "characters without control characters",
  hint: "PROGRESS",
  schema: { type: "object" },
  read: parseProgress,
});
