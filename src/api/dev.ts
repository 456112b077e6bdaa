import { LOGIN, NEW_LOGIN, STANDARD_DEV_LOGIN } from "../domain/account/account.ts";
import { DAY_MS } from "../domain/clock/duration.ts";
import { INSTANT } from "../domain/clock/time.ts";
import {
  DURATION,
  TRUTH,
  integerBetween,
  numberBetween,
  oneOf,
  plainLines,
  plainText,
  textRule,
} from "../domain/rule.ts";
import { TAG, WAIT_SECONDS_MAX } from "../domain/task/task.ts";
import { DELIVERY_KINDS } from "../domain/webhook/delivery.ts";
import { SCRIPTED_ANSWER, SCRIPTED_ANSWERS } from "../domain/webhook/inbox.ts";
import { WebhookSecret, WholeKey } from "./account.ts";
import { Attempt, DeliveryKind, DeliveryState } from "./delivery.ts";
import { Id, Login, Share, Time, envelope } from "./envelope.ts";
import {
  type Inputs,
  type InputsFor,
  type WrittenInputs,
  optional,
  required,
  textUpTo,
  wholeNumber,
  withDefault,
} from "./input.ts";
import * as s from "./schema.ts";
import { HeaderLine, TIMELINE_ANSWERS } from "./timeline.ts";

const CLOCK_MODES = ["real", "manual"] as const;

const Mode = s.word(
  CLOCK_MODES,
  "`real` follows the machine's clock; `manual` stands still until it is advanced.",
);

const DueItem = s.named(
  "DueItem",
  s.object({
    at: Time,
    what: s.word(
      [
        "attempt",
        "attempt_timeout",
        "inbox_answer",
        "task_start",
        "run_end",
        "run_timeout",
        "lease_end",
        "erasure",
      ],
      "`attempt_timeout` and `run_timeout` come unless the attempt or run ends before; `run_end` and `inbox_answer` have the " +
        "`after_ms` that was ordered.",
    ),
    task_id: s.nullable(Id, "Null for the response to a message without a task."),
    kind: s.nullable(DeliveryKind, "Of the webhook; null for events without one."),
  }),
);

const Clock = { mode: Mode, now: Time, next: s.list(DueItem, "The next 20 due items.") };

const DevEvent = s.named(
  "DevEvent",
  s.object(
    {
      at: Time,
      event: s.word([
        "run_started",
        "run_failed",
        "lease_ended",
        "task_ended",
        "attempt_ended",
        "task_erased",
      ]),
      task_id: Id,
    },
    {
      optional: {
        state: s.word(["completed", "failed", "cancelled"], "How the task ended."),
        kind: DeliveryKind,
        attempt: s.integer({ minimum: 1, description: "From 1, as X-Attempt has it." }),
        outcome: s.text("How the attempt or the lease ended."),
        http_status: s.nullable(s.integer()),
        delivery: { ...DeliveryState, description: "The webhook's state after the attempt." },
        next_at: s.nullable(Time),
      },
    },
  ),
);
export type DevEvent = s.Static<typeof DevEvent>;

const InboxMessage = s.named(
  "InboxMessage",
  s.object({
    seq: s.integer({ minimum: 1, description: "Grows with every message, over all boxes." }),
    received_at: { ...Time, description: "By the daemon's clock." },
    method: s.text(),
    url: s.text("Path and query, as they were requested."),
    full_url: s.text("With scheme and host; a pingback's signature is over it."),
    headers: s.list(HeaderLine, "Names and values, as they came."),
    body: s.text(),
    body_encoding: s.word(["utf-8", "base64"], "`base64` if the body is not UTF-8."),
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
        "`waiting` has no response yet; `gone` had a sender that gave up before.",
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

/** How long a look into a box may be held. */
export const INBOX_WAIT_SECONDS_MAX = 60;

const Secrets = envelope({
  login: Login,
  webhook_secret: WebhookSecret,
  webhook_secret_next: s.nullable(WebhookSecret, "Signs as well, while the secret is replaced."),
});

const ACCOUNT = { login: withDefault(LOGIN, STANDARD_DEV_LOGIN, "Of the account.") };

// Judged as the URL of a task, with its placeholders.
const URL_TEXT = textRule({
  takes: "a URL, as postback_url and pingback_url of a task take it",
  hint: "URL",
  schema: { type: "string" },
  read: (text) => text,
});

export const TASK_STAGES = ["ended", "delivered", "settled"] as const;
export type TaskStage = (typeof TASK_STAGES)[number];

const MESSAGE_LENGTH_MAX = 1000;

/** The parts of a rule beside its result, which is any JSON. */
export const RESULT_RULE = {
  type: optional(plainText(64), "Only tasks of this type; all types unless given."),
  tag: optional(TAG, "Only tasks with this tag; all tasks unless given."),
  error: optional(plainLines(MESSAGE_LENGTH_MAX), "The run fails with this message."),
  after_ms: withDefault(
    integerBetween(0, 365 * DAY_MS),
    0,
    "How long the run takes, by the daemon's clock.",
  ),
  hold: withDefault(TRUTH, false, "The run goes on until it is finished by a request."),
};

/** Ends a run that is held, in the place of a result. */
export const RUN_END = { error: RESULT_RULE.error };

const Result = s.anything("Any JSON; the run ends with it, digit for digit.");

type Written<Of extends Inputs> = WrittenInputs<Of> & { readonly result?: unknown };

/** An object with these fields and any JSON as its result. */
function withResult<Of extends Inputs>(name: string, inputs: Of): s.Schema<Written<Of>> {
  const fields = Object.entries(inputs).map(([field, { schema, description }]) => {
    return [field, { ...schema, description }];
  });
  const properties = { ...Object.fromEntries(fields), result: Result };
  return s.named(name, s.closed<Written<Of>>({ type: "object", properties }));
}

const Rule = withResult("ResultRule", RESULT_RULE);
const End = withResult("RunEnd", RUN_END);

const Faults = envelope({
  duplicate: Share,
  reorder: Share,
  drop_answer: Share,
  delay_ms: s.count(),
  crash_during_attempt: Share,
});

export const DEV_ANSWERS = {
  "GET /dev/clock": envelope(Clock),
  "PUT /dev/clock": envelope(Clock),
  "POST /dev/clock/advance": envelope({ now: Time, events: s.list(DevEvent, "In their order.") }),
  "GET /dev/inbox": envelope({ boxes: s.list(InboxBox, "By name.") }),
  "GET /dev/inbox/:box": envelope({
    messages: s.list(InboxMessage, "The oldest first."),
    next_after: s.nullable(s.integer(), "If more messages exist: the `after` of the next request."),
  }),
  "DELETE /dev/inbox/:box": Nothing,
  "PUT /dev/inbox/:box/answers": Nothing,
  "POST /dev/sign_in_link": envelope({ token: s.text("For `POST /v1/session/link`, once.") }),
  "POST /dev/secrets/rotate": Secrets,
  "POST /dev/secrets/finish": Secrets,
  "POST /dev/accounts": envelope({
    login: Login,
    key: WholeKey,
    webhook_secret: WebhookSecret,
    inbox_url: s.text("A receiver of this daemon, with the login as its box."),
  }),
  "POST /dev/webhooks": envelope({
    task_id: { ...Id, description: "Of the task in the sample; the daemon has none of that id." },
    attempt: Attempt,
  }),
  "GET /dev/wait/:task_id": TIMELINE_ANSWERS["GET /v1/tasks/timeline/:id"],
  "PUT /dev/results": envelope({ rules_count: s.count() }),
  "POST /dev/tasks/:id/finish": envelope({ id: Id }),
  "POST /dev/reset": envelope({ tasks_erased: s.count() }),
  "GET /dev/faults": Faults,
  "PUT /dev/faults": Faults,
};

const share = (description: string) => withDefault(numberBetween(0, 1), 0, description);

export const DEV_INPUTS = {
  "PUT /dev/clock": { body: { mode: required(oneOf(CLOCK_MODES)) } },
  "POST /dev/clock/advance": {
    body: {
      by: optional(DURATION, "So much later."),
      to: optional(INSTANT, "At this time. RFC 3339."),
      until: optional(oneOf(["idle"]), "When nothing is scheduled any more, in 60 days at most."),
    },
  },
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
  "POST /dev/secrets/rotate": { body: ACCOUNT, isBodyOptional: true },
  "POST /dev/secrets/finish": { body: ACCOUNT, isBodyOptional: true },
  "POST /dev/accounts": {
    body: { login: optional(NEW_LOGIN, "One of its own unless given.") },
    isBodyOptional: true,
  },
  "POST /dev/webhooks": {
    body: {
      url: required(URL_TEXT),
      kind: required(oneOf(DELIVERY_KINDS)),
      login: withDefault(LOGIN, STANDARD_DEV_LOGIN, "The account whose secret signs it."),
    },
  },
  "GET /dev/wait/:task_id": {
    query: {
      for: withDefault(
        oneOf(TASK_STAGES),
        "settled",
        "`ended`: the task has; `delivered`: and every webhook of it has arrived; `settled`: and none is still to be sent.",
      ),
      timeout: wholeNumber(
        { min: 0, max: WAIT_SECONDS_MAX, standard: 30 },
        "Seconds of the machine's time, independent of the daemon's clock.",
      ),
    },
  },
  "PUT /dev/results": { json: () => s.list(Rule, "The first that fits a task counts.") },
  "POST /dev/tasks/:id/finish": { json: () => End },
  "POST /dev/reset": { body: {}, isBodyOptional: true },
  "PUT /dev/faults": {
    body: {
      duplicate: share("Of attempts that are sent twice, with the same X-Attempt."),
      reorder: share(
        "Of attempts that let the next one to the same host go first, if there is one.",
      ),
      drop_answer: share("Of attempts that arrive, and are recorded as timed out and so retried."),
      delay_ms: withDefault(
        integerBetween(0, DAY_MS),
        0,
        "How late every attempt goes out, by the daemon's clock.",
      ),
      crash_during_attempt: share(
        "The share of attempts that arrive and are recorded as interrupted, so they are sent again immediately; never two in a row.",
      ),
    },
  },
} satisfies InputsFor<typeof DEV_ANSWERS>;
