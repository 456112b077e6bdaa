import { textRule, type Rule } from "../rule.ts";
import { UNIT_MS } from "./duration.ts";

let lastTimeMs = 0;
let lastTimeText = "1970-01-01T00:00:00.000Z";

/** RFC 3339 in UTC with milliseconds. */
export function timeText(timeMs: number): string {
  // Tasks of one post and one millisecond share their times: formatting each would cost 3 µs under load.
  if (timeMs !== lastTimeMs) {
    lastTimeText = new Date(timeMs).toISOString();
    lastTimeMs = timeMs;
  }
  return lastTimeText;
}

/** As {@link timeText}; null stays. */
export function timeOrNull(timeMs: number | null): string | null {
  return timeMs === null ? null : timeText(timeMs);
}

const RFC_3339 =
  /^\d{4}-\d{2}-\d{2}[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$/;

// The first and the last millisecond that RFC 3339 can write.
const TIME_MS_MIN = Date.parse("0000-01-01T00:00:00.000Z");
const TIME_MS_MAX = Date.parse("9999-12-31T23:59:59.999Z");

/** Milliseconds since the epoch of an RFC 3339 text; null for anything else, such as a day in no calendar. */
export function parseTime(value: unknown): number | null {
  if (typeof value !== "string" || !RFC_3339.test(value)) return null;
  const date = value.slice(0, 10);
  const midnightMs = Date.parse(`${date}T00:00:00Z`);
  // Date.parse turns 30 February into a day of March: a date that changes does not exist.
  if (Number.isNaN(midnightMs) || !timeText(midnightMs).startsWith(date)) return null;
  const timeMs = Date.parse(value.toUpperCase());
  return timeMs >= TIME_MS_MIN && timeMs <= TIME_MS_MAX ? timeMs : null;
}

/** A time in RFC 3339; milliseconds since the epoch. */
export const INSTANT: Rule<number, string> = textRule({
  takes: "an RFC 3339 time, such as 2030-01-31T09:00:00.000Z",
  hint: "TIME",
  schema: { type: "string", format: "date-time" },
  read: parseTime,
});

/** A time as people write it in flags and searches: in RFC 3339, as a day in UTC, or as an age before `now`. */
export function instantSeenFrom(now: number): Rule<number> {
  return textRule({
    ...INSTANT,
    takes:
      "an RFC 3339 time such as 2030-01-31T09:00:00Z, a day such as 2030-01-31, " +
      "or how long ago: 30m, 2h, 7d",
    read(text) {
      if (/^\d{4}-\d{2}-\d{2}$/.test(text)) return parseTime(`${text}T00:00:00Z`);
      const [, count, unit = ""] = /^(\d{1,12}(?=ms)|\d{1,6})(ms|s|m|h|d|w)$/.exec(text) ?? [];
      if (count === undefined) return parseTime(text);
      const timeMs = now - Number(count) * (UNIT_MS.get(unit) ?? NaN);
      // A time that RFC 3339 cannot write could not be shown either.
      return timeMs >= TIME_MS_MIN ? timeMs : null;
    },
  });
}

/** A time to the second, for sentences: `2026-11-21 14:02:11 UTC`. */
export function momentText(timeMs: number): string {
  return `${timeText(timeMs).slice(0, -".000Z".length).replace("T", " ")} UTC`;
}

/** As {@link momentText}, in a time zone of the IANA database: `2026-11-21 15:02:11 UTC+1`. Null if it is unknown. */
export function zonedMoments(timeZone: string): ((timeMs: number) => string) | null {
  const format = zonedFormat(timeZone);
  if (format === null) return null;
  return (timeMs) => {
    const parts = new Map(format.formatToParts(timeMs).map(({ type, value }) => [type, value]));
    const of = (type: Intl.DateTimeFormatPartTypes): string => parts.get(type) ?? "";
    const offset = of("timeZoneName").replace("GMT", "UTC").replace(/\+0$/, "");
    return `${of("year")}-${of("month")}-${of("day")} ${of("hour")}:${of("minute")}:${of("second")} ${offset}`;
  };
}

function zonedFormat(timeZone: string): Intl.DateTimeFormat | null {
  try {
    // Every build of ICU has English; only its digits are read.
    return new Intl.DateTimeFormat("en", {
      timeZone,
      timeZoneName: "shortOffset",
      hourCycle: "h23",
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
    });
  } catch {
    return null;
  }
}
