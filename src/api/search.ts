import { ATTEMPT_OUTCOMES, DELIVERY_STATES } from "../domain/delivery.ts";
import { TASK_STATES } from "../domain/task.ts";
import { DeliveryKind } from "./delivery.ts";
import { envelope, NextCursor } from "./envelope.ts";
import {
  count,
  flag,
  integer,
  list,
  named,
  nullable,
  object,
  text,
  word,
  type Static,
} from "./schema.ts";
import { Progress } from "./task.ts";
import { Id, Time } from "./value.ts";

/** Where a search or a count goes on, beside what it has found. */
export const ExaminedUntil = nullable(Time, {
  description: "How far back it has looked; null where nothing was looked at.",
});

const FoundDelivery = object({
  kind: DeliveryKind,
  host: text(),
  state: word(["waiting", ...DELIVERY_STATES]),
  attempts: count({ description: "The one that is under way among them." }),
  last: nullable(
    object({
      outcome: word(ATTEMPT_OUTCOMES),
      http_status: nullable(integer()),
      error: nullable(text()),
      ended_at: Time,
    }),
  ),
  next_attempt_at: nullable(Time),
});
export type FoundDelivery = Static<typeof FoundDelivery>;

const FoundTask = named(
  "FoundTask",
  object({
    id: Id,
    login: text(),
    state: word(TASK_STATES),
    status_code: integer(),
    status_message: text(),
    type: nullable(text()),
    tag: nullable(text()),
    priority: integer(),
    runs: count(),
    created_at: Time,
    started_at: nullable(Time),
    completed_at: nullable(Time),
    start_at: nullable(Time),
    progress: nullable(Progress),
    ready: flag({ description: "Finished by a run, and not collected yet." }),
    deliveries: list(FoundDelivery),
  }),
);
export type FoundTask = Static<typeof FoundTask>;

export const SEARCH_ANSWERS = {
  "GET /v1/tasks/search": envelope({
    tasks: list(FoundTask),
    next_cursor: NextCursor,
    examined_until: ExaminedUntil,
  }),
};
