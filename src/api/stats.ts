import { envelope, type OwnFields } from "./envelope.ts";
import {
  count,
  flag,
  integer,
  list,
  named,
  nullable,
  number,
  object,
  text,
  word,
  type Static,
} from "./schema.ts";
import { Id, Share, Time } from "./value.ts";

/** The numbers of the dashboard. */

const Percentile = nullable(number({ minimum: 0 }));
const Retrying = count({ description: "Deliveries that failed and will be tried again." });

const OUTCOMES = {
  posted: count(),
  completed: count(),
  failed: count(),
  first_attempts: count({ description: "First attempts that ended." }),
  first_delivered: count(),
  delivered: count(),
  given_up: count(),
  refused: count(),
};

/** The part of a day's deliveries that arrived. */
export const Success = nullable(Share, {
  description: "Delivered ones among all that ended; null where none did.",
});

export const WorkCounts = named(
  "WorkCounts",
  object({
    waiting: count({ description: "Queued tasks that may run now." }),
    delayed: count({
      description:
        "Queued tasks that start later: at `start_at`, or for another try after a failure.",
    }),
    running: count(),
    ready: count({ description: "Finished tasks that nobody has collected." }),
    retrying: Retrying,
    undelivered: count({ description: "Deliveries that are given up or refused now." }),
  }),
);
export type WorkCounts = Static<typeof WorkCounts>;

/** The data of an event that tells of a change. */
export interface ChangeData {
  readonly tasks: WorkCounts;
  readonly time: string;
}

const DayCounts = named(
  "DayCounts",
  object({ ...OUTCOMES, success: Success }, { description: "Of the last 24 hours." }),
);
export type DayCounts = Static<typeof DayCounts>;

const Attention = named(
  "Attention",
  object({
    level: word(["problem", "warning"]),
    what: text({ description: "One word for its kind." }),
    text: text({ description: "What it is and what to do, for people." }),
    link: nullable(text({ description: "A page of the dashboard." })),
  }),
);
export type Attention = Static<typeof Attention>;

// Which of the first steps were ever taken, and what the next ones need.
const Setup = object({
  has_account: flag(),
  has_posted: flag(),
  has_completed: flag(),
  has_webhook: flag(),
  has_delivered: flag(),
  has_collected: flag(),
  types: list(text(), {
    description: "The types that a task may name, those that give back their input first.",
  }),
});
export type Setup = Static<typeof Setup>;

const Overview = envelope({
  tasks: WorkCounts,
  day: DayCounts,
  oldest_waiting_ms: nullable(count()),
  attention: list(Attention),
  setup: Setup,
  time: Time,
});
export type Overview = OwnFields<typeof Overview>;

const SeriesBucket = named(
  "SeriesBucket",
  object({
    at: Time,
    is_whole: flag({ description: "False while its time is not over." }),
    ...OUTCOMES,
    cancelled: count(),
    p50_ms: Percentile,
    p95_ms: Percentile,
    p99_ms: Percentile,
    attempts: count({ description: "Attempts that ended, retries included." }),
    queued: count({ description: "The most tasks that were seen waiting to run." }),
    oldest_ms: count({ description: "The longest that a waiting task was seen to have waited." }),
  }),
);
export type SeriesBucket = Static<typeof SeriesBucket>;

const Series = envelope({
  from: Time,
  to: Time,
  step_ms: integer({ minimum: 60_000 }),
  buckets: list(SeriesBucket),
  limit_ms: count({ description: "After which an attempt is broken off." }),
});
export type Series = OwnFields<typeof Series>;

const HostOverview = named(
  "HostOverview",
  object({
    host: text(),
    attempts: count(),
    succeeded: count(),
    success: nullable(Share),
    p50_ms: Percentile,
    p95_ms: Percentile,
    given_up: count({ description: "Deliveries that are given up now, whenever that was." }),
    refused: count({ description: "Deliveries that are refused now, whenever that was." }),
    retrying: Retrying,
    last_error: nullable(
      object({
        at: Time,
        error: nullable(text()),
        http_status: nullable(integer()),
        task_id: nullable(Id),
      }),
    ),
  }),
);
export type HostOverview = Static<typeof HostOverview>;

export const STATS_ANSWERS = {
  "GET /v1/stats/overview": Overview,
  "GET /v1/stats/series": Series,
  "GET /v1/stats/hosts": envelope({
    since: Time,
    hosts: list(HostOverview),
    more: flag({
      description: "True where not all hosts are shown, or not all of them is counted.",
    }),
  }),
};
