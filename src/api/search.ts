import { TASK_STATES } from "../domain/task/task.ts";
import {
  ATTEMPT_OUTCOMES,
  ATTEMPTS_COUNTED_MAX,
  DELIVERY_STATES,
} from "../domain/webhook/delivery.ts";
import { DeliveryKind, IsPaused } from "./delivery.ts";
import { envelope, NextCursor } from "./envelope.ts";
import { CURSOR, textUpTo, wholeNumber, type InputsFor } from "./input.ts";
import * as s from "./schema.ts";
import { Progress } from "./task.ts";
import { Id, Time } from "./value.ts";

/** Where a search or a count continues, beside what it has found. */
export const ExaminedUntil = s.nullable(
  Time,
  "How far back it has looked; null where nothing was looked at.",
);

const FoundDelivery = s.object({
  kind: DeliveryKind,
  host: s.text(),
  state: s.word(["waiting", ...DELIVERY_STATES]),
  attempts: s.count(`With the attempt in flight; ${ATTEMPTS_COUNTED_MAX} are counted at most.`),
  last: s.nullable(
    s.object({
      outcome: s.word(ATTEMPT_OUTCOMES),
      http_status: s.nullable(s.integer()),
      error: s.nullable(s.text()),
      ended_at: Time,
    }),
  ),
  next_attempt_at: s.nullable(Time),
  is_paused: IsPaused,
});
export type FoundDelivery = s.Static<typeof FoundDelivery>;

const FoundTask = s.named(
  "FoundTask",
  s.object({
    id: Id,
    login: s.text(),
    state: s.word(TASK_STATES),
    status_code: s.integer(),
    status_message: s.text(),
    type: s.nullable(s.text()),
    tag: s.nullable(s.text()),
    priority: s.integer(),
    runs: s.count(),
    created_at: Time,
    started_at: s.nullable(Time),
    completed_at: s.nullable(Time),
    start_at: s.nullable(Time),
    progress: s.nullable(Progress),
    ready: s.flag("Finished by a run, and not collected yet."),
    deliveries: s.list(FoundDelivery),
  }),
);
export type FoundTask = s.Static<typeof FoundTask>;

export const SEARCH_ANSWERS = {
  "GET /v1/tasks/search": envelope({
    tasks: s.list(FoundTask),
    next_cursor: NextCursor,
    examined_until: ExaminedUntil,
  }),
};

const LIMIT = { min: 1, max: 200, standard: 50 };
const SEARCH_LENGTH_MAX = 1000;

const Q_DESCRIPTION =
  "Words with spaces between, all of which must hold: `state:queued|running|completed|failed|cancelled|ready|waiting|delayed` " +
  "(`waiting` and `delayed` are the queued tasks that may run now and those that start later), " +
  "`delivery:waiting|scheduled|in_flight|retrying|delivered|given_up|refused` (several of them with commas between), " +
  '`type:T`, `tag:T` (`tag:"a b"`), `host:H`, `account:LOGIN`, `code:50010`, `after:TIME`, `before:TIME` (RFC 3339, a ' +
  "day of UTC, or 30m, 2h, 7d for how long ago), `id:UUID`. A bare UUID is an id, any other bare word a tag. With a host, " +
  "`delivery` is about the webhooks that go there. All tasks where it is empty.";

export const SEARCH_INPUTS = {
  "GET /v1/tasks/search": {
    query: {
      q: textUpTo(SEARCH_LENGTH_MAX, Q_DESCRIPTION),
      cursor: CURSOR,
      limit: wholeNumber(LIMIT, "Most tasks on a page."),
    },
  },
} satisfies InputsFor<typeof SEARCH_ANSWERS>;
