import { oneOf } from "../domain/rule.ts";
import { DELIVERY_KINDS } from "../domain/webhook/delivery.ts";
import { SCRIPTED_ANSWER, SCRIPTED_ANSWERS } from "../domain/webhook/scripted-answer.ts";
import { DeliveryKind } from "./delivery.ts";
import { envelope } from "./envelope.ts";
import { optional, textUpTo, wholeNumber, type InputsFor } from "./input.ts";
import * as s from "./schema.ts";
import { HeaderLine } from "./timeline.ts";
import { Id, Time } from "./value.ts";

/** The inboxes of a daemon for development (contract §9). */

const InboxMessage = s.named(
  "InboxMessage",
  s.object({
    seq: s.integer({ minimum: 1, description: "Grows with every message, over all boxes." }),
    received_at: { ...Time, description: "By the daemon's clock." },
    method: s.text(),
    url: s.text("Path and query, as they were requested."),
    full_url: s.text("With scheme and host: of a pingback, what is signed."),
    headers: s.list(HeaderLine, "Names and values, as they came."),
    body: s.text(),
    body_encoding: s.word(["utf-8", "base64"], "`base64` where the body is no UTF-8."),
    kind: s.nullable(DeliveryKind, "Null where neither header nor body names a task."),
    task_id: s.nullable(Id),
    attempt: s.nullable(s.integer(), "The value of X-Attempt."),
    signature: s.object({
      verdict: s.word(
        ["valid", "next", "invalid", "missing"],
        "`next` is signed with the secret that is being rotated in.",
      ),
      detail: s.text("In the words of `postbackd verify`."),
    }),
    answered: s.object({
      how: s.word(
        ["waiting", "sent", "reset", "gone"],
        "`waiting` is not answered yet; `gone` had a sender who gave up before.",
      ),
      status: s.nullable(s.integer(), "The HTTP status that was sent."),
      after_ms: s.nullable(s.count(), "By the daemon's clock; null while it waits."),
    }),
  }),
);
export type InboxMessage = s.Static<typeof InboxMessage>;

const InboxBox = s.named(
  "InboxBox",
  s.object({ box: s.text(), messages: s.count(), last_received_at: s.nullable(Time) }),
);
export type InboxBox = s.Static<typeof InboxBox>;

const Nothing = envelope({});

export const DEV_INBOX_ANSWERS = {
  "GET /dev/inbox": envelope({ boxes: s.list(InboxBox, "By name.") }),
  "GET /dev/inbox/:box": envelope({
    messages: s.list(InboxMessage, "The oldest first."),
    next_after: s.nullable(
      s.integer(),
      "Where there are more than one answer holds: the `after` that asks for them.",
    ),
  }),
  "DELETE /dev/inbox/:box": Nothing,
  "PUT /dev/inbox/:box/answers": Nothing,
};

/** How long a look into a box may be held. */
export const INBOX_WAIT_SECONDS_MAX = 60;

export const DEV_INBOX_INPUTS = {
  "GET /dev/inbox/:box": {
    query: {
      task: textUpTo(64, "Only messages about the task with this id."),
      kind: optional(oneOf(DELIVERY_KINDS), "Only these."),
      after: wholeNumber(
        { min: 0, max: Number.MAX_SAFE_INTEGER, standard: 0 },
        "Only messages with a greater `seq`.",
      ),
      last: wholeNumber(
        { min: 1, max: 1000, standard: 1000 },
        "Only the newest so many of the messages asked for.",
      ),
      count: wholeNumber(
        { min: 1, max: 1000, standard: 1 },
        "With `wait`: for so many of the messages asked for.",
      ),
      wait: wholeNumber(
        { min: 0, max: INBOX_WAIT_SECONDS_MAX, standard: 0 },
        "Holds the answer until `count` messages are there, for so many seconds of the machine's time; then it is the list as far " +
          "as it is.",
      ),
    },
  },
  "PUT /dev/inbox/:box/answers": {
    holds: "message",
    body: {
      answers: optional(SCRIPTED_ANSWERS, "For the next messages, one by one."),
      then: optional(SCRIPTED_ANSWER, "For all that come after them; 200 unless given."),
    },
  },
} satisfies InputsFor<typeof DEV_INBOX_ANSWERS>;
