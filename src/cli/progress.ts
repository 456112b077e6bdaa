import type { TellProgress, WorkProgress } from "../domain/work-progress.ts";

/** Shows how far long work is, in one way for all commands. */

// Over a shorter time a rate is none.
const RATED_MS_MIN = 1000;
const MINUTE_S = 60;
// Nobody reads faster, and a line for each of a million steps would cost more than the work.
const SHOWN_EVERY_MS = 100;
const CLEAR_LINE = "\r\u001B[K";

/** The part of a terminal that the line of progress needs: stderr, unless a test has another. */
export interface ProgressTerminal {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

/**
 * Does work that tells how far it is. On a terminal one line shows it, which changes, stays when a part is done, and is
 * gone when the work ends before; elsewhere nothing is shown, so that logs and scripts get no line of it.
 */
export async function withProgress<Value>(
  work: (tell: TellProgress) => Value | Promise<Value>,
  terminal: ProgressTerminal = process.stderr,
): Promise<Value> {
  if (terminal.isTTY !== true) return work(() => {});
  const textOf = progressTexts(() => performance.now());
  let shownAt = -SHOWN_EVERY_MS;
  let isLineOpen = false;
  const tell = (progress: WorkProgress): void => {
    const isDone = progress.done === progress.of;
    const text = textOf(progress);
    const now = performance.now();
    if (!isDone && now - shownAt < SHOWN_EVERY_MS) return;
    shownAt = now;
    isLineOpen = !isDone;
    terminal.write(`${CLEAR_LINE}${text}${isDone ? "\n" : ""}`);
  };
  try {
    return await work(tell);
  } finally {
    if (isLineOpen) terminal.write(CLEAR_LINE);
  }
}

/** How far a part is, as one line shows it: `tasks: 120,000 of 1,000,000, 51,300/s, 17 s left`. */
export function progressText({ part, done, of }: WorkProgress, elapsedMs: number): string {
  const text = `${part}: ${shown(done)}${of === null ? "" : ` of ${shown(of)}`}`;
  if (elapsedMs < RATED_MS_MIN || done === 0) return text;
  const perSecond = (done * 1000) / elapsedMs;
  const rated = `${text}, ${rateText(perSecond)}`;
  return of !== null && done < of ? `${rated}, ${leftText((of - done) / perSecond)} left` : rated;
}

function shown(count: number): string {
  return Math.round(count).toLocaleString("en");
}

function rateText(perSecond: number): string {
  return perSecond < 1 ? `${shown(perSecond * MINUTE_S)}/min` : `${shown(perSecond)}/s`;
}

function leftText(seconds: number): string {
  if (seconds < 2 * MINUTE_S) return `${Math.ceil(seconds)} s`;
  return `${Math.ceil(seconds / MINUTE_S)} min`;
}

/** Answers what makes those lines of progress: it knows when each part was begun. */
export function progressTexts(now: () => number): (progress: WorkProgress) => string {
  let part = "";
  let begunAt = now();
  let toldAt = begunAt;
  return (progress) => {
    // A part begins when the last of the one before is told.
    if (progress.part !== part) begunAt = toldAt;
    part = progress.part;
    toldAt = now();
    return progressText(progress, toldAt - begunAt);
  };
}
