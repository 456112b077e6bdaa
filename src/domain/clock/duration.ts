/** Units of time, in milliseconds. */
export const SECOND_MS = 1000;
export const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

/** The same by the units of a written duration, such as `10s`. */
export const UNIT_MS: ReadonlyMap<string, number> = new Map([
  ["ms", 1],
  ["s", SECOND_MS],
  ["m", MINUTE_MS],
  ["h", HOUR_MS],
  ["d", DAY_MS],
  ["w", 7 * DAY_MS],
]);

/** A length of time for sentences, in its two largest units: `3 ms`, `9.8 s`, `4 min 3 s`, `2 h 5 min`. */
export function durationText(lengthMs: number): string {
  const ms = Math.max(0, lengthMs);
  if (ms < 1000) return `${Math.round(ms * 10) / 10} ms`;
  if (ms < MINUTE_MS) return `${Math.floor(ms / 100) / 10} s`;
  const two = (large: [number, string], small: [number, string]): string => {
    const rest = Math.floor((ms % large[0]) / small[0]);
    const whole = `${Math.floor(ms / large[0])} ${large[1]}`;
    return rest === 0 ? whole : `${whole} ${rest} ${small[1]}`;
  };
  if (ms < HOUR_MS) return two([MINUTE_MS, "min"], [1000, "s"]);
  if (ms < DAY_MS) return two([HOUR_MS, "h"], [MINUTE_MS, "min"]);
  return two([DAY_MS, "d"], [HOUR_MS, "h"]);
}
