import { textRule, type Rule } from "../rule.ts";

/** The longest time that an answer about a task may be held. */
export const WAIT_SECONDS_MAX = 60;

/** How long a client waits for a task to end: the N of `Prefer: wait=N` (RFC 7240). */
export const WAIT_SECONDS: Rule<number, string> = textRule({
  takes: `whole seconds from 0 to ${WAIT_SECONDS_MAX}`,
  hint: "SECONDS",
  schema: { type: "string", pattern: "^\\d{1,3}$" },
  read: (text) =>
    /^\d{1,3}$/.test(text) && Number(text) <= WAIT_SECONDS_MAX ? Number(text) : null,
});
