import { INSTANT } from "../domain/clock/time.ts";
import { DURATION, oneOf } from "../domain/rule.ts";
import { DeliveryKind, DeliveryState } from "./delivery.ts";
import { envelope } from "./envelope.ts";
import { optional, required, type InputsFor } from "./input.ts";
import * as s from "./schema.ts";
import { Id, Time } from "./value.ts";

/** The clock of a daemon for development (contract §9). */

const CLOCK_MODES = ["real", "manual"] as const;

const Mode = s.word(
  CLOCK_MODES,
  "`real` goes with the machine's; `manual` stands still until it is advanced.",
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
      "`attempt_timeout` and `run_timeout` come unless what is under way ends before; `run_end` and `inbox_answer` have the " +
        "`after_ms` that was ordered.",
    ),
    task_id: s.nullable(Id, "Null for the answer to a message about no task."),
    kind: s.nullable(DeliveryKind, "Of the webhook; null for what is about none."),
  }),
);

const Clock = { mode: Mode, now: Time, next: s.list(DueItem, "The next 20 things that fall due.") };

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

export const DEV_CLOCK_ANSWERS = {
  "GET /dev/clock": envelope(Clock),
  "PUT /dev/clock": envelope(Clock),
  "POST /dev/clock/advance": envelope({ now: Time, events: s.list(DevEvent, "In their order.") }),
};

export const DEV_CLOCK_INPUTS = {
  "PUT /dev/clock": { body: { mode: required(oneOf(CLOCK_MODES)) } },
  "POST /dev/clock/advance": {
    body: {
      by: optional(DURATION, "So much later."),
      to: optional(INSTANT, "At this time. RFC 3339."),
      until: optional(oneOf(["idle"]), "When nothing is scheduled any more, in 60 days at most."),
    },
  },
} satisfies InputsFor<typeof DEV_CLOCK_ANSWERS>;
