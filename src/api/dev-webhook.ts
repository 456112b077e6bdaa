import { STANDARD_DEV_LOGIN, LOGIN } from "../domain/account/login.ts";
import { oneOf, textRule } from "../domain/rule.ts";
import { DELIVERY_KINDS } from "../domain/webhook/delivery.ts";
import { Attempt } from "./delivery.ts";
import { envelope } from "./envelope.ts";
import { required, withDefault, type InputsFor } from "./input.ts";
import { Id } from "./value.ts";

/** Webhooks without a task (contract §9). */

// Judged as that of a task, with its placeholders.
const URL_TEXT = textRule({
  takes: "a URL, as postback_url and pingback_url of a task take it",
  hint: "URL",
  schema: { type: "string" },
  read: (text) => text,
});

export const DEV_WEBHOOK_ANSWERS = {
  "POST /dev/webhooks": envelope({
    task_id: { ...Id, description: "Of the task in the sample; the daemon has none of that id." },
    attempt: Attempt,
  }),
};

export const DEV_WEBHOOK_INPUTS = {
  "POST /dev/webhooks": {
    body: {
      url: required(URL_TEXT),
      kind: required(oneOf(DELIVERY_KINDS)),
      login: withDefault(LOGIN, STANDARD_DEV_LOGIN, "Whose secret signs it."),
    },
  },
} satisfies InputsFor<typeof DEV_WEBHOOK_ANSWERS>;
