import { KEY_PREFIX, WORKER_TOKEN_PREFIX } from "../account/key-form.ts";
import { textRule } from "../rule.ts";
import type { Rule } from "../rule.ts";

/** The name of a type of tasks, wherever it is written. Names are compared exactly. */
export const TYPE_NAME: Rule<string> = textRule({
  takes: "1 to 64 characters of A-Z a-z 0-9 . _ -",
  hint: "TYPE",
  schema: { type: "string", pattern: "^[A-Za-z0-9._-]{1,64}$" },
  read: (text) => (/^[A-Za-z0-9._-]{1,64}$/.test(text) ? text : null),
});

/**
 * The name of a worker: a valid name of a type that does not begin like a token or a key. Such text is a secret in the
 * wrong place, and names are shown; so no fault repeats what was given.
 */
export const WORKER_NAME: Rule<string> = textRule({
  ...TYPE_NAME,
  takes: `${TYPE_NAME.takes}, and never a token or a key`,
  hint: "NAME",
  isSecret: true,
  read(text) {
    const isSecret = text.startsWith(WORKER_TOKEN_PREFIX) || text.startsWith(KEY_PREFIX);
    return isSecret || TYPE_NAME.parse(text).kind === "fault" ? null : text;
  },
});
