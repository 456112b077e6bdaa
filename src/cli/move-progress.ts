import type { MoveProgress } from "../daemon/move.ts";

// Over a shorter time a rate is none.
const RATED_MS_MIN = 1000;
const MINUTE_S = 60;

/** How far a table is, as one line shows it: `tasks: 120,000 of 1,000,000, 51,300/s, 17 s left`. */
export function progressText({ table, rows, of }: MoveProgress, elapsedMs: number): string {
  const text = `${table}: ${shown(rows)} of ${shown(of)}`;
  if (elapsedMs < RATED_MS_MIN) return text;
  const perSecond = (rows * 1000) / elapsedMs;
  const rated = `${text}, ${shown(perSecond)}/s`;
  return rows < of ? `${rated}, ${leftText((of - rows) / perSecond)} left` : rated;
}

function shown(count: number): string {
  return Math.round(count).toLocaleString("en");
}

function leftText(seconds: number): string {
  if (seconds < 2 * MINUTE_S) return `${Math.ceil(seconds)} s`;
  return `${Math.ceil(seconds / MINUTE_S)} min`;
}

/** Answers what makes those lines of a move's progress: it knows when each table was begun. */
export function progressTexts(now: () => number): (progress: MoveProgress) => string {
  let table = "";
  let begunAt = now();
  let toldAt = begunAt;
  return (progress) => {
    // A table begins when the last rows of the one before are there.
    if (progress.table !== table) begunAt = toldAt;
    table = progress.table;
    toldAt = now();
    return progressText(progress, toldAt - begunAt);
  };
}
