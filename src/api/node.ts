import { SNAPSHOT_HOLDERS } from "../domain/stats/health.ts";
import { Time, envelope } from "./envelope.ts";
import * as s from "./schema.ts";

const NodeOverview = s.named(
  "NodeOverview",
  s.object({
    id: s.text("New at each start."),
    name: s.text("Of its machine; several nodes may have the same."),
    version: s.text(),
    url: s.nullable(s.text("The URL at which it listens; null if it has not reported it yet.")),
    answers: s.flag("True for the node that gives this answer."),
    joined_at: Time,
    last_seen_at: Time,
    ended_at: s.nullable(Time),
    is_lost: s.flag(
      "True if it ended without leaving: it was killed, or cut off from the database.",
    ),
    roles: s.list(s.text(), { description: "The work that the node does for all nodes." }),
    running: s.nullable(
      s.list(s.object({ type: s.text(), runs: s.count() }), {
        description: "The types that it runs itself; null if it has not reported them yet.",
      }),
    ),
    sending: s.nullable(s.count("Webhooks that it is sending.")),
  }),
);
export type NodeOverview = s.Static<typeof NodeOverview>;

const StandbyOverview = s.object({
  name: s.text(),
  state: s.nullable(s.text("In the server's word, such as streaming.")),
  sync_state: s.nullable(s.text("In the server's word: async, potential, sync or quorum.")),
  lag_bytes: s.nullable(s.count("Bytes that it has not replayed.")),
  lag_ms: s.nullable(s.count("How long a replay took lately; null also when nothing is replayed.")),
});

const DatabaseOverview = s.named(
  "DatabaseOverview",
  s.object({
    version: s.text("Of the PostgreSQL server."),
    bytes: s.count("The size of the whole database on the server's disk."),
    connections: s.object({ used: s.count("Those of all clients."), max: s.count() }),
    oldest_snapshot: s.nullable(
      s.object({
        holder: s.word(SNAPSHOT_HOLDERS),
        name: s.text("Of the session's application, of the slot, or of the prepared transaction."),
        pid: s.nullable(s.count("Of the server's process.")),
        age_ms: s.nullable(s.count("At least so long; null when that is not known.")),
        transactions: s.count("How many have begun since."),
      }),
      "The session or slot that prevents PostgreSQL from removing old row versions; null if none does.",
    ),
    standbys: s.list(StandbyOverview, "The standbys of this server; hidden values are null."),
    commits_wait: s.flag("True when a commit is acknowledged only once a standby has it too."),
    dead_rows: s.object(
      { queue: s.count(), outbox: s.count() },
      { description: "Old versions of rows that have not been cleaned up." },
    ),
    warnings: s.list(s.text(), "Problems that the operator should fix."),
  }),
);
export type DatabaseOverview = s.Static<typeof DatabaseOverview>;

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
      s.flag("False while tasks wait and no worker of the type has sent a request for a minute."),
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

export const NODE_ANSWERS = {
  "GET /v1/operator/runners": envelope({
    types: s.list(RunnerType),
    workers: s.list(WorkerOverview),
  }),
  "GET /v1/operator/nodes": envelope({
    nodes: s.list(NodeOverview),
    database: s.nullable(
      DatabaseOverview,
      "The server that the nodes share; null for a database file.",
    ),
  }),
};
