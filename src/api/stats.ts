import { MINUTE_MS } from "../domain/clock/duration.ts";
import { Id, type OwnFields, Share, Time, envelope } from "./envelope.ts";
import { pointInTime, type InputsFor } from "./input.ts";
import * as s from "./schema.ts";

/** The numbers of the dashboard. */

const Percentile = s.nullable(s.number({ minimum: 0 }));
const Retrying = s.count("Deliveries that failed and will be tried again.");

const OUTCOMES = {
  posted: s.count(),
  completed: s.count(),
  failed: s.count(),
  first_attempts: s.count("First attempts that ended."),
  first_delivered: s.count(),
  delivered: s.count(),
  given_up: s.count(),
  refused: s.count(),
};

/** The share of a day's deliveries that arrived. */
export const Success = s.nullable(
  Share,
  "Delivered ones among all that ended; null where none did.",
);

export const WorkCounts = s.named(
  "WorkCounts",
  s.object({
    waiting: s.count("Queued tasks that may run now."),
    delayed: s.count(
      "Queued tasks that start later: at `start_at`, or for another try after a failure.",
    ),
    running: s.count(),
    ready: s.count("Finished tasks that are not collected."),
    retrying: Retrying,
    undelivered: s.count("Deliveries that are given up or refused now."),
  }),
);
export type WorkCounts = s.Static<typeof WorkCounts>;

export interface ChangeData {
  readonly tasks: WorkCounts;
  readonly time: string;
}

const DayCounts = s.named(
  "DayCounts",
  s.object({ ...OUTCOMES, success: Success }, { description: "Of the last 24 hours." }),
);
export type DayCounts = s.Static<typeof DayCounts>;

const Attention = s.named(
  "Attention",
  s.object({
    level: s.word(["problem", "warning"]),
    what: s.text("One word for its kind."),
    text: s.text("The condition and its remedy, for people."),
    link: s.nullable(s.text("A page of the dashboard.")),
  }),
);
export type Attention = s.Static<typeof Attention>;

const Overview = envelope({
  tasks: WorkCounts,
  day: DayCounts,
  oldest_waiting_ms: s.nullable(s.count()),
  attention: s.list(Attention),
  time: Time,
});
export type Overview = OwnFields<typeof Overview>;

const SeriesBucket = s.named(
  "SeriesBucket",
  s.object({
    at: Time,
    is_whole: s.flag("False while its time is not over."),
    ...OUTCOMES,
    cancelled: s.count(),
    p50_ms: Percentile,
    p95_ms: Percentile,
    p99_ms: Percentile,
    attempts: s.count("Attempts that ended, retries included."),
    queued: s.nullable(
      s.count(),
      "The most tasks that were seen waiting to run; null if no daemon ran.",
    ),
    oldest_ms: s.nullable(
      s.count(),
      "The longest that a waiting task was seen to have waited; null if no daemon ran.",
    ),
  }),
);
export type SeriesBucket = s.Static<typeof SeriesBucket>;

const Series = envelope({
  from: Time,
  to: Time,
  step_ms: s.integer({ minimum: MINUTE_MS }),
  buckets: s.list(SeriesBucket),
  limit_ms: s.count("After which an attempt is broken off."),
});
export type Series = OwnFields<typeof Series>;

const HostOverview = s.named(
  "HostOverview",
  s.object({
    host: s.text(),
    attempts: s.count(),
    succeeded: s.count(),
    success: s.nullable(Share),
    p50_ms: Percentile,
    p95_ms: Percentile,
    given_up: s.count("Deliveries that are given up now, whenever that was."),
    refused: s.count("Deliveries that are refused now, whenever that was."),
    retrying: Retrying,
    is_paused: s.flag("The operator has paused deliveries to this host."),
    last_error: s.nullable(
      s.object({
        at: Time,
        error: s.nullable(s.text()),
        http_status: s.nullable(s.integer()),
        task_id: s.nullable(Id),
      }),
    ),
  }),
);
export type HostOverview = s.Static<typeof HostOverview>;

export const STATS_ANSWERS = {
  "GET /v1/stats/overview": Overview,
  "GET /v1/stats/series": Series,
  "GET /v1/stats/hosts": envelope({
    since: Time,
    hosts: s.list(HostOverview),
    more: s.flag("True where not all hosts are shown, or not all of them is counted."),
  }),
};

const EXAMPLE = { example: "2026-01-31T08:00:00.000Z" };

export const STATS_INPUTS = {
  "GET /v1/stats/series": {
    query: {
      from: pointInTime("From this time on; an hour before `to` unless given.", EXAMPLE),
      to: pointInTime("Up to this time; now unless given.", EXAMPLE),
    },
  },
  "GET /v1/stats/hosts": {
    query: {
      since: pointInTime("Since this time, to the hour; 24 hours ago unless given.", EXAMPLE),
    },
  },
} satisfies InputsFor<typeof STATS_ANSWERS>;
