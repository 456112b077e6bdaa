/** A series of `/metrics`: its kind, what it says, and the names of its labels. */
export interface SeriesKind {
  readonly kind: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels: readonly string[];
  /** The upper bounds of a histogram's buckets, in ascending order; empty for the other kinds. */
  readonly bounds: readonly number[];
}

const MOMENTS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60];
const COMMITS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2];
const ATTEMPTS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const WAITS = [0.01, 0.05, 0.25, 1, 5, 15, 60, 300, 900, 3600, 21_600];
const BATCHES = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/**
 * Every series that `/metrics` may have, by its name. Labels are bounded: a `type` is one of the first
 * {@link TYPES_MAX} or `other`, every other label is a word of the program's. No login, no host, no id.
 */
export const SERIES = {
  postbackd_build_info: gauge("1, with what the daemon is made of as labels.", [
    ...["version", "node", "sqlite", "database"],
  ]),
  postbackd_ready: gauge("1 while the daemon accepts tasks, as in /readyz."),

  postbackd_http_requests_total: counter("Requests that were answered.", ["operation", "status"]),
  postbackd_http_request_duration_seconds: histogram(
    "Time until an answer was made, a wait that the client asked for included.",
    MOMENTS,
    ["operation"],
  ),

  postbackd_tasks_posted_total: counter("Tasks that were accepted.", ["type"]),
  postbackd_tasks_refused_total: counter("Tasks that came back as failed from task_post."),
  postbackd_tasks_started_total: counter("Runs that were started, by workers too.", ["type"]),
  postbackd_tasks_ended_total: counter("Tasks that completed or finally failed.", [
    ...["type", "state"],
  ]),
  postbackd_tasks_cancelled_total: counter("Tasks that were cancelled over this daemon's API."),
  postbackd_queue_wait_seconds: histogram(
    "Time from when a task could start to the start of its run.",
    WAITS,
    ["type"],
  ),
  postbackd_runs_total: counter("Runs that ended by themselves.", ["type", "outcome"]),
  postbackd_run_duration_seconds: histogram("Time that a run took.", WAITS, ["type"]),
  postbackd_runs_active: gauge("Runs that this daemon has under way.", ["type"]),

  postbackd_tasks: gauge("Tasks in the database.", ["state"]),
  postbackd_tasks_ready: gauge("Finished tasks that were not collected."),
  postbackd_queue_tasks: gauge("Tasks that may start now, counted up to 10,000 of each type.", [
    "type",
  ]),
  postbackd_queue_age_seconds: gauge("How long the longest-waiting task has waited; 0 for none.", [
    "type",
  ]),
  postbackd_running_tasks: gauge("Tasks that run now, at workers and all daemons.", ["type"]),
  postbackd_workers_waiting: gauge("Requests of workers that wait for a task at this daemon.", [
    "type",
  ]),
  postbackd_queue_without_worker: gauge(
    "1 if tasks wait and no worker for them has connected for a minute.",
    ["type"],
  ),

  postbackd_delivery_attempts_total: counter("Attempts that ended.", ["kind", "outcome"]),
  postbackd_delivery_attempt_duration_seconds: histogram("Time that an attempt took.", ATTEMPTS, [
    "kind",
  ]),
  postbackd_delivery_lag_seconds: histogram(
    "Time from when an attempt was due to its start.",
    WAITS,
  ),
  postbackd_deliveries_ended_total: counter("Deliveries that came to an end.", ["kind", "state"]),
  postbackd_deliveries_retrying: gauge("Deliveries that failed and will be tried again."),
  postbackd_deliveries_undelivered: gauge("Deliveries that are given up or refused now."),
  postbackd_delivery_attempts_active: gauge("Attempts that this daemon has under way."),
  postbackd_delivery_lanes: gauge("Lanes with an attempt scheduled or under way."),
  postbackd_held_accounts: gauge("Disabled accounts whose deliveries are suspended."),
  postbackd_delivery_pauses: gauge("Pauses of deliveries that the operator has made."),
  postbackd_receivers: gauge("Hosts that this daemon sent to in the last minutes."),
  postbackd_receivers_failing: gauge("Those of them that took nothing."),

  postbackd_store_batch_operations: histogram("Writes that one commit brought to disk.", BATCHES),
  postbackd_store_commit_duration_seconds: histogram(
    "Time of a commit, from its handing over to the writer.",
    COMMITS,
  ),
  postbackd_store_refused_batches_total: counter("Batches that were not written.", ["reason"]),
  postbackd_database_size_bytes: gauge("Size of the database file."),
  postbackd_database_wal_size_bytes: gauge("Size of the file's -wal."),
  postbackd_database_data_bytes: gauge("Size of the data in the database."),
  postbackd_disk_free_bytes: gauge("Free space on the disk of the database file."),
  postbackd_disk_size_bytes: gauge("Size of that disk."),
  postbackd_disk_free_min_bytes: gauge(
    "Free space below which nothing new is accepted (limits.disk_free).",
  ),

  postbackd_backup_last_success_timestamp_seconds: gauge(
    "When the newest scheduled backup was made; absent without a schedule.",
  ),
  postbackd_backup_failed: gauge(
    "1 where the last scheduled backup failed; absent without a schedule.",
  ),

  postbackd_nodes: gauge("Daemons that share the database and are alive."),
  postbackd_node_role: gauge("1 where this daemon has the role.", ["role"]),

  postbackd_event_loop_delay_p99_seconds: gauge(
    "Delay of the event loop in the last minute, 99th percentile.",
  ),
  postbackd_event_loop_delay_max_seconds: gauge(
    "Longest delay of the event loop in the last minute.",
  ),
  postbackd_sample_age_seconds: gauge("How old the numbers that were read from the database are."),
  process_cpu_seconds_total: counter("CPU time of the process."),
  process_resident_memory_bytes: gauge("Memory of the process."),
  process_heap_bytes: gauge("Heap of the main thread that is in use."),
  process_open_fds: gauge("Open file descriptors."),
  process_max_fds: gauge("The most file descriptors that may be open."),
  process_start_time_seconds: gauge("When the process started, since the epoch."),
} satisfies Readonly<Record<`${"postbackd" | "process"}_${string}`, SeriesKind>>;

export type SeriesName = keyof typeof SERIES;

/** The most types that have a value of their own in counters and gauges; all others are `other`. */
export const TYPES_MAX = 1000;

/** The same for histograms, which have a dozen lines for each. */
export const HISTOGRAM_TYPES_MAX = 100;

function counter(help: string, labels: readonly string[] = []): SeriesKind {
  return { kind: "counter", help, labels, bounds: [] };
}

function gauge(help: string, labels: readonly string[] = []): SeriesKind {
  return { kind: "gauge", help, labels, bounds: [] };
}

function histogram(
  help: string,
  bounds: readonly number[],
  labels: readonly string[] = [],
): SeriesKind {
  return { kind: "histogram", help, labels, bounds };
}
