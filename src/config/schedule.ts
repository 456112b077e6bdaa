import { Cron } from "croner";

import { textRule, type Rule } from "../domain/rule.ts";

/** A pattern of five fields as cron has them (minute, hour, day, month, day of the week), in UTC, that names a time. */
export const SCHEDULE: Rule<string> = textRule({
  takes: "five fields as in a crontab, such as '0 3 * * *', that name a time",
  hint: "CRON",
  schema: { type: "string" },
  read(text) {
    const pattern = text.trim().replaceAll(/\s+/g, " ");
    return pattern.split(" ").length === 5 && hasTime(pattern) ? pattern : null;
  },
});

// 31 February never comes, whenever the search begins.
const ANY_DAY = new Date(0);

function hasTime(pattern: string): boolean {
  try {
    return new Cron(pattern, { utcOffset: 0, paused: true }).nextRun(ANY_DAY) !== null;
  } catch {
    return false;
  }
}
