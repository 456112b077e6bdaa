import { textRule, type Rule } from "../rule.ts";

const KEY_ID_FORM = /^key_[0-9a-f]{32}$/;

/** The public name of a key: `key_` and the 32 hex digits of a UUIDv7. */
export const KEY_ID: Rule<string, string> = textRule({
  takes: "the key_id of a key",
  hint: "KEY_ID",
  schema: { type: "string", pattern: KEY_ID_FORM.source },
  read: (text) => (KEY_ID_FORM.test(text) ? text : null),
});
