import { zonedMoments } from "../domain/clock/time.ts";
import { textRule } from "../domain/rule.ts";
import { ATTEMPT, DeliveryId, DeliveryKind, DeliveryState, IsPaused } from "./delivery.ts";
import { type OwnFields, Time, envelope } from "./envelope.ts";
import { optional, type InputsFor } from "./input.ts";
import { RunnerKind } from "./node.ts";
import * as s from "./schema.ts";
import { TASK_SUMMARY, TaskError } from "./task.ts";

/** Everything that happened to a task and its webhooks, and why. */

export const HeaderLine: s.Schema<readonly [name: string, value: string]> = {
  type: "array",
  items: s.text(),
  minItems: 2,
  maxItems: 2,
};
export type HeaderLine = s.Static<typeof HeaderLine>;

const Headers = s.list(HeaderLine, "Names and values, as they are sent.");

const TimelineTask = s.named(
  "TimelineTask",
  s.object({
    ...TASK_SUMMARY,
    login: s.text(),
    input_bytes: s.nullable(s.count("Of JSON text; null without an input.")),
    result_bytes: s.nullable(s.count()),
    error: TaskError,
    ready: s.flag(),
  }),
);
export type TimelineTask = s.Static<typeof TimelineTask>;

const TimelineRun = s.named(
  "TimelineRun",
  s.object({
    by: s.object({
      kind: s.nullable(RunnerKind),
      name: s.nullable(s.text("The command's program, the service's origin, or the worker.")),
    }),
    lease_expires_at: s.nullable(Time),
  }),
);
export type TimelineRun = s.Static<typeof TimelineRun>;

const TimelineRequest = s.named(
  "TimelineRequest",
  s.object({
    method: s.word(["POST", "GET"]),
    target: s.text("Path and query, as they stand on the request line."),
    headers: Headers,
    body: s.object({
      bytes: s.count(),
      text: s.nullable(s.text("Null if it is longer than 64 KiB.")),
    }),
    message: s.text("The text that X-Signature signs: `body`, or this URL."),
    signature: s.text(),
    signature_next: s.nullable(s.text()),
  }),
);
export type TimelineRequest = s.Static<typeof TimelineRequest>;

const TimelineAttempt = s.named(
  "TimelineAttempt",
  s.object({
    ...ATTEMPT,
    explanation: s.text("Its outcome and the reason, without a full stop."),
    retry_after: s.nullable(s.text()),
    request_headers: {
      ...Headers,
      description:
        "The headers that differ between attempts, signed with the current secret: empty if nothing was sent, and of older " +
        "attempts with large bodies no signature.",
    },
  }),
);
export type TimelineAttempt = s.Static<typeof TimelineAttempt>;

const TimelineDelivery = s.named(
  "TimelineDelivery",
  s.object({
    delivery_id: DeliveryId,
    kind: DeliveryKind,
    url: s.text(),
    host: s.text(),
    state: DeliveryState,
    explanation: s.text("The state of the delivery and the reason, without a full stop."),
    next_attempt_at: s.nullable(Time),
    is_paused: IsPaused,
    request: TimelineRequest,
    attempts: s.list(TimelineAttempt),
  }),
);
export type TimelineDelivery = s.Static<typeof TimelineDelivery>;

const Timeline = envelope({
  run: TimelineRun,
  explanation: s.nullable(
    s.text("Why nothing was sent, without a full stop; null if an attempt has started."),
  ),
  deliveries: s.list(TimelineDelivery),
  time: Time,
  task: TimelineTask,
});
export type Timeline = OwnFields<typeof Timeline>;

export const TIMELINE_ANSWERS = { "GET /v1/tasks/timeline/:id": Timeline };

const ZONE_LENGTH_MAX = 64;

/** The time zone of who reads: how times are written in it. */
const TIME_ZONE = optional(
  textRule({
    takes: "the name of a time zone of the IANA database, such as Europe/Berlin",
    hint: "ZONE",
    schema: {
      type: "string",
      pattern: "^[A-Za-z0-9+:_/-]+$",
      maxLength: ZONE_LENGTH_MAX,
      examples: ["Europe/Berlin"],
    },
    read: (text) => (text.length <= ZONE_LENGTH_MAX ? zonedMoments(text) : null),
  }),
  "The time zone of the times in `explanation`: its name in the IANA database. The default is UTC.",
);

export const TIMELINE_INPUTS = {
  "GET /v1/tasks/timeline/:id": { query: { time_zone: TIME_ZONE } },
} satisfies InputsFor<typeof TIMELINE_ANSWERS>;
