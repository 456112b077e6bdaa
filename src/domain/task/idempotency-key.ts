import { textRule, type Rule } from "../rule.ts";

const LENGTH_MAX = 255;
const KEY = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/;

/**
 * The name that a client gives to one post, however often it sends it. Compared character for character, with quotes.
 */
export const IDEMPOTENCY_KEY: Rule<string, string> = textRule({
  takes: `1 to ${LENGTH_MAX} printable ASCII characters`,
  hint: "KEY",
  schema: { type: "string", maxLength: LENGTH_MAX, pattern: KEY.source, examples: ["order-17"] },
  read: (text) => (text.length <= LENGTH_MAX && KEY.test(text) ? text : null),
});
