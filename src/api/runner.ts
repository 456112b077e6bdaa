import { envelope } from "./envelope.ts";
import * as s from "./schema.ts";
import { Time } from "./value.ts";

export const RunnerKind = s.word(["echo", "command", "http", "worker", "function"]);
export type RunnerKind = s.Static<typeof RunnerKind>;

const RunnerType = s.named(
  "RunnerType",
  s.object({
    name: s.text(),
    kind: RunnerKind,
    runs: s.nullable(
      s.text("A command's program and how many arguments it has; a service's origin."),
    ),
    concurrency: s.count(),
    timeout_ms: s.count(),
    lease_ms: s.nullable(s.count()),
    retries: s.count(),
    running: s.count(),
    waiting: s.count("Queued tasks that may start now, counted up to 10,000."),
    waiting_is_more: s.flag("More wait than were counted."),
    oldest_waiting_ms: s.nullable(s.count()),
    workers_waiting: s.nullable(
      s.count("Requests of workers that wait for a task now; null for other kinds."),
    ),
    has_worker: s.nullable(
      s.flag("False while tasks wait and no worker of the type was heard for a minute."),
    ),
  }),
);
export type RunnerType = s.Static<typeof RunnerType>;

const WorkerOverview = s.named(
  "WorkerOverview",
  s.object({
    name: s.text(),
    types: s.list(s.text()),
    last_four: s.text(),
    created_at: Time,
    last_seen_at: s.nullable(Time),
    revoked_at: s.nullable(Time),
    leases: s.count(),
  }),
);
export type WorkerOverview = s.Static<typeof WorkerOverview>;

export const RUNNER_ANSWERS = {
  "GET /v1/operator/runners": envelope({
    types: s.list(RunnerType),
    workers: s.list(WorkerOverview),
  }),
};
