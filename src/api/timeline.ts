import { ATTEMPT, DeliveryId, DeliveryKind, DeliveryState } from "./delivery.ts";
import { envelope, type OwnFields } from "./envelope.ts";
import { RunnerKind } from "./runner.ts";
import {
  count,
  flag,
  list,
  named,
  nullable,
  object,
  text,
  word,
  type Schema,
  type Static,
} from "./schema.ts";
import { TASK_SUMMARY, TaskError } from "./task.ts";
import { Time } from "./value.ts";

/** All that happened to a task and its webhooks, and why. */

const HeaderLine: Schema<readonly [name: string, value: string]> = {
  ...{ type: "array", items: text(), minItems: 2, maxItems: 2 },
};
export type HeaderLine = Static<typeof HeaderLine>;

const Headers = list(HeaderLine, { description: "Names and values, as they are sent." });

const TimelineTask = named(
  "TimelineTask",
  object({
    ...TASK_SUMMARY,
    login: text(),
    input_bytes: nullable(count({ description: "Of JSON text; null where there is none." })),
    result_bytes: nullable(count()),
    error: TaskError,
    ready: flag(),
  }),
);
export type TimelineTask = Static<typeof TimelineTask>;

const TimelineRun = named(
  "TimelineRun",
  object({
    by: object({
      kind: nullable(RunnerKind),
      name: nullable(
        text({
          description: "The command's program, the service's origin, or the worker.",
        }),
      ),
    }),
    lease_expires_at: nullable(Time),
  }),
);
export type TimelineRun = Static<typeof TimelineRun>;

const TimelineRequest = named(
  "TimelineRequest",
  object({
    method: word(["POST", "GET"]),
    target: text({ description: "Path and query, as they stand on the request line." }),
    headers: Headers,
    body: object({
      bytes: count(),
      text: nullable(text({ description: "Null when it is longer than 64 KiB." })),
    }),
    message: text({ description: "What X-Signature signs: `body`, or this URL." }),
    signature: text(),
    signature_next: nullable(text()),
  }),
);
export type TimelineRequest = Static<typeof TimelineRequest>;

const TimelineAttempt = named(
  "TimelineAttempt",
  object({
    ...ATTEMPT,
    explanation: text({ description: "What became of it and why, without a full stop." }),
    retry_after: nullable(text()),
    request_headers: {
      ...Headers,
      description:
        "What differs between attempts, signed with the secret of now: none where nothing went out, and of older " +
        "attempts with large bodies no signature.",
    },
  }),
);
export type TimelineAttempt = Static<typeof TimelineAttempt>;

const TimelineDelivery = named(
  "TimelineDelivery",
  object({
    delivery_id: DeliveryId,
    kind: DeliveryKind,
    url: text(),
    host: text(),
    state: DeliveryState,
    story: text({ description: "Where it stands and why, without a full stop." }),
    next_attempt_at: nullable(Time),
    request: TimelineRequest,
    attempts: list(TimelineAttempt),
  }),
);
export type TimelineDelivery = Static<typeof TimelineDelivery>;

const Timeline = envelope({
  run: TimelineRun,
  story: nullable(
    text({
      description: "Why nothing was sent, without a full stop; null where something was.",
    }),
  ),
  deliveries: list(TimelineDelivery),
  time: Time,
  task: TimelineTask,
});
export type Timeline = OwnFields<typeof Timeline>;

export const TIMELINE_ANSWERS = { "GET /v1/tasks/timeline/:id": Timeline };
