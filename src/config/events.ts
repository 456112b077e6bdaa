import { WEBHOOK_SECRET } from "../domain/account/key.ts";
import { textRule } from "../domain/rule.ts";
import { hasControl } from "../domain/text.ts";
import type { SettingRule } from "./setting-rule.ts";

/** A webhook URL, which is judged once it is known what may be reached. All that is behind its host may be a secret. */
export const EVENTS_URL: SettingRule<string> = {
  ...textRule({
    takes: "an http or https URL, without control characters",
    hint: "URL",
    schema: { type: "string", format: "uri" },
    isSecret: true,
    read: (text) => (text !== "" && !hasControl(text) ? text : null),
  }),
  shown: (url) => `${URL.parse(url)?.origin ?? ""}/…`,
};

/** The secret of the operator's own webhooks, in the form of an account's. */
export const EVENTS_SECRET: SettingRule<string> = { ...WEBHOOK_SECRET, shown: () => "…" };
