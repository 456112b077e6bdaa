import { envelope } from "./envelope.ts";
import { count, flag, list, named, nullable, object, text, word, type Static } from "./schema.ts";
import { Time } from "./value.ts";

/** What runs tasks. */

export const RunnerKind = word(["echo", "command", "http", "worker", "function"]);
export type RunnerKind = Static<typeof RunnerKind>;

const RunnerType = named(
  "RunnerType",
  object({
    name: text(),
    kind: RunnerKind,
    runs: nullable(
      text({
        description: "A command's program and how many arguments it has; a service's origin.",
      }),
    ),
    concurrency: count(),
    timeout_ms: count(),
    lease_ms: nullable(count()),
    retries: count(),
    running: count(),
    waiting: count({ description: "Queued tasks that may start now, counted up to 10,000." }),
    waiting_is_more: flag({ description: "More wait than were counted." }),
    oldest_waiting_ms: nullable(count()),
    workers_waiting: nullable(
      count({
        description: "Requests of workers that wait for a task now; null for other kinds.",
      }),
    ),
    has_worker: nullable(
      flag({
        description: "False while tasks wait and no worker of the type was heard for a minute.",
      }),
    ),
  }),
);
export type RunnerType = Static<typeof RunnerType>;

const WorkerOverview = named(
  "WorkerOverview",
  object({
    name: text(),
    types: list(text()),
    last_four: text(),
    created_at: Time,
    last_seen_at: nullable(Time),
    revoked_at: nullable(Time),
    leases: count(),
  }),
);
export type WorkerOverview = Static<typeof WorkerOverview>;

export const RUNNER_ANSWERS = {
  "GET /v1/operator/runners": envelope({ types: list(RunnerType), workers: list(WorkerOverview) }),
};
