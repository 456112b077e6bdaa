import type {
  ObservedAttempt,
  ObservedCommit,
  ObservedEnd,
  ObservedPost,
  ObservedRefusal,
  ObservedRequest,
  ObservedRun,
  ObservedStart,
  Observer,
} from "../domain/observer.ts";
import { HISTOGRAM_TYPES_MAX, TYPES_MAX } from "../http/metrics/series.ts";
import { Counter, Histogram, TypeNames, type Family } from "../http/metrics/values.ts";

/** Counts and times what it is told, for `/metrics`. What it keeps is bounded, however many tasks and types there are. */
export class Meter implements Required<Observer> {
  readonly #requests = new Counter("postbackd_http_requests_total");
  readonly #requestTimes = new Histogram("postbackd_http_request_duration_seconds");
  readonly #posted = new Counter("postbackd_tasks_posted_total");
  readonly #refused = new Counter("postbackd_tasks_refused_total");
  readonly #started = new Counter("postbackd_tasks_started_total");
  readonly #ended = new Counter("postbackd_tasks_ended_total");
  readonly #cancelled = new Counter("postbackd_tasks_cancelled_total");
  readonly #queueWaits = new Histogram("postbackd_queue_wait_seconds");
  readonly #runs = new Counter("postbackd_runs_total");
  readonly #runTimes = new Histogram("postbackd_run_duration_seconds");
  readonly #attempts = new Counter("postbackd_delivery_attempts_total");
  readonly #attemptTimes = new Histogram("postbackd_delivery_attempt_duration_seconds");
  readonly #lags = new Histogram("postbackd_delivery_lag_seconds");
  readonly #deliveries = new Counter("postbackd_deliveries_ended_total");
  readonly #batches = new Histogram("postbackd_store_batch_operations");
  readonly #commits = new Histogram("postbackd_store_commit_duration_seconds");
  readonly #refusals = new Counter("postbackd_store_refused_batches_total");
  readonly #types = new TypeNames(TYPES_MAX);
  readonly #timedTypes = new TypeNames(HISTOGRAM_TYPES_MAX);

  request({ operation, status, ms }: ObservedRequest): void {
    const name = operation ?? "none";
    this.#requests.add([name, status === null ? "gone" : `${Math.floor(status / 100)}xx`]);
    this.#requestTimes.observe([name], ms / 1000);
  }

  commit({ operations, ms }: ObservedCommit): void {
    this.#batches.observe([], operations);
    this.#commits.observe([], ms / 1000);
  }

  refusal({ reason }: ObservedRefusal): void {
    this.#refusals.add([reason]);
  }

  post({ accepted, refused }: ObservedPost): void {
    for (const [type, tasks] of accepted) this.#posted.add([this.#types.of(type)], tasks);
    if (refused > 0) this.#refused.add([], refused);
  }

  start({ type, waitedMs }: ObservedStart): void {
    this.#started.add([this.#types.of(type)]);
    this.#queueWaits.observe([this.#timedTypes.of(type)], waitedMs / 1000);
  }

  run({ type, outcome, ms }: ObservedRun): void {
    this.#runs.add([this.#types.of(type), outcome]);
    if (ms !== null) this.#runTimes.observe([this.#timedTypes.of(type)], ms / 1000);
  }

  end({ type, state }: ObservedEnd): void {
    if (state === "cancelled") this.#cancelled.add([]);
    else this.#ended.add([this.#types.of(type), state]);
  }

  attempt({ kind, outcome, ms, lagMs, state }: ObservedAttempt): void {
    this.#attempts.add([kind, outcome]);
    if (ms !== null) this.#attemptTimes.observe([kind], ms / 1000);
    if (lagMs !== null) this.#lags.observe([], lagMs / 1000);
    if (state !== "scheduled") this.#deliveries.add([kind, state]);
  }

  /** The counts since the start. */
  families(): readonly Family[] {
    return [
      ...[this.#requests, this.#requestTimes],
      ...[this.#posted, this.#refused, this.#started, this.#ended, this.#cancelled],
      ...[this.#queueWaits, this.#runs, this.#runTimes],
      ...[this.#attempts, this.#attemptTimes, this.#lags, this.#deliveries],
      ...[this.#batches, this.#commits, this.#refusals],
    ].map(({ family }) => family);
  }
}

/** One observer that tells both, neither of which may throw. */
export function bothObservers(one: Observer, other: Observer | undefined): Observer {
  if (other === undefined) return one;
  return {
    request: both(one.request, other.request),
    commit: both(one.commit, other.commit),
    refusal: both(one.refusal, other.refusal),
    post: both(one.post, other.post),
    start: both(one.start, other.start),
    run: both(one.run, other.run),
    end: both(one.end, other.end),
    attempt: both(one.attempt, other.attempt),
  };
}

function both<Event>(
  one: ((event: Event) => void) | undefined,
  other: ((event: Event) => void) | undefined,
) {
  if (one === undefined || other === undefined) return one ?? other;
  return (event: Event): void => {
    one(event);
    other(event);
  };
}
