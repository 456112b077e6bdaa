import { now } from "../shell/clock.ts";
import { DAY_MS } from "../shell/format.ts";

const clockTimes = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  hourCycle: "h23",
});
const days = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

/** `19:05`. */
export function clockText(at: number): string {
  return clockTimes.format(at);
}

/** `Nov 21`, in the reader's format. */
export function dayText(at: number): string {
  return days.format(at);
}

/** A span of time, as short as it can be without ambiguity: `19:05–19:06`, `Nov 20, 19:00–20:00`, `Nov 19–Nov 21`. */
export function spanText(from: number, to: number): string {
  const first = dayText(from);
  const last = dayText(to - 1);
  if (to - from >= DAY_MS && isMidnight(from) && isMidnight(to)) {
    return first === last ? first : `${first}–${last}`;
  }
  const start = first === dayText(now.peek()) ? clockText(from) : `${first}, ${clockText(from)}`;
  return `${start}–${first === last ? "" : `${dayText(to)}, `}${clockText(to)}`;
}

function isMidnight(at: number): boolean {
  return clockText(at) === "00:00";
}
