import { isPromise } from "node:util/types";

import { MINUTE_MS } from "../domain/clock/duration.ts";
import { setInterval } from "../domain/clock/timers.ts";
import type { Logger } from "../domain/log.ts";
import {
  type Gauges,
  type ObservedAttempt,
  type ObservedCommit,
  type ObservedEnd,
  type ObservedPost,
  type ObservedRefusal,
  type ObservedRequest,
  type ObservedRun,
  type ObservedStart,
  type Observer,
  WAITING_COUNTED_MAX,
} from "../domain/observer.ts";
import { Counter, type Family, Histogram, TypeNames } from "../http/metrics/metrics.ts";
import { HISTOGRAM_TYPES_MAX, TYPES_MAX } from "../http/metrics/series.ts";
import type { Engine } from "../run/engine.ts";
import type { Store } from "../store/store.ts";

/** Counts and times the reported events, for `/metrics`. Its memory is bounded for any number of tasks and types. */
export class Meter implements Required<Observer> {
  readonly #all: (Counter | Histogram)[] = [];
  readonly #requests = this.#add(new Counter("postbackd_http_requests_total"));
  readonly #requestTimes = this.#add(new Histogram("postbackd_http_request_duration_seconds"));
  readonly #posted = this.#add(new Counter("postbackd_tasks_posted_total"));
  readonly #refused = this.#add(new Counter("postbackd_tasks_refused_total"));
  readonly #started = this.#add(new Counter("postbackd_tasks_started_total"));
  readonly #ended = this.#add(new Counter("postbackd_tasks_ended_total"));
  readonly #cancelled = this.#add(new Counter("postbackd_tasks_cancelled_total"));
  readonly #queueWaits = this.#add(new Histogram("postbackd_queue_wait_seconds"));
  readonly #runs = this.#add(new Counter("postbackd_runs_total"));
  readonly #runTimes = this.#add(new Histogram("postbackd_run_duration_seconds"));
  readonly #attempts = this.#add(new Counter("postbackd_delivery_attempts_total"));
  readonly #attemptTimes = this.#add(new Histogram("postbackd_delivery_attempt_duration_seconds"));
  readonly #lags = this.#add(new Histogram("postbackd_delivery_lag_seconds"));
  readonly #deliveries = this.#add(new Counter("postbackd_deliveries_ended_total"));
  readonly #batches = this.#add(new Histogram("postbackd_store_batch_operations"));
  readonly #commits = this.#add(new Histogram("postbackd_store_commit_duration_seconds"));
  readonly #refusals = this.#add(new Counter("postbackd_store_refused_batches_total"));
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

  families(): readonly Family[] {
    return this.#all.map(({ family }) => family);
  }

  #add<Kept extends Counter | Histogram>(kept: Kept): Kept {
    this.#all.push(kept);
    return kept;
  }
}

const EVENTS = [
  ...(["request", "commit", "refusal", "post"] as const),
  ...(["start", "run", "end", "attempt"] as const),
] satisfies readonly (keyof Observer)[];

/** One observer for several, in this order. Errors of an observer end here; the first is logged. */
export function joinObservers(observers: readonly Observer[], log: Logger): Observer {
  const guards = observers.map((observer) => ({ observer, note: firstError(log) }));
  const joined: Record<string, (event: unknown) => void> = {};
  for (const name of EVENTS) {
    const tells = guards.flatMap(({ observer, note }) => {
      const tell = observer[name] as ((event: unknown) => unknown) | undefined;
      return tell === undefined ? [] : [guarded(tell.bind(observer), note)];
    });
    if (tells.length === 0) continue;
    joined[name] = (event) => {
      for (const tell of tells) tell(event);
    };
  }
  return joined;
}

// Events come several times per task: no promise is made for an observer that is not asynchronous.
function guarded(tell: (event: unknown) => unknown, note: (err: unknown) => void) {
  return (event: unknown): void => {
    try {
      const told = tell(event);
      if (isPromise(told)) told.catch(note);
    } catch (err) {
      note(err);
    }
  };
}

function firstError(log: Logger): (err: unknown) => void {
  let hasFailed = false;
  return (err) => {
    if (hasFailed) return;
    hasFailed = true;
    log.error(
      { err },
      "the observer threw; it still gets later events, and this is not logged again",
    );
  };
}

interface GaugeParts {
  readonly store: Pick<Store, "listTypeWork">;
  readonly engine: Pick<Engine, "lanes">;
  readonly types: readonly string[];
}

/** Looks at how much there is; the queue is counted in a thread of its own. */
export async function readGauges({ store, engine, types }: GaugeParts): Promise<Gauges> {
  const works = await store.listTypeWork({ types, waitingMax: WAITING_COUNTED_MAX });
  const queue = works.map(({ type, waiting, isMoreWaiting }) => ({ type, waiting, isMoreWaiting }));
  return { queue, lanes: engine.lanes };
}

/** How late the event loop was in the last minute. */
export interface LoopDelay {
  /** In 99 of 100 samples the loop was at most this late. */
  readonly p99Ms: number;
  readonly worstMs: number;
}

export interface LoopWatchDeps {
  /** The machine's monotonic time in milliseconds: only this clock shows how late a loop is. */
  readonly now: () => number;
  readonly log: Logger;
}

// Ten looks a second cost nothing that can be measured.
const LOOK_MS = 100;
const KEPT = MINUTE_MS / LOOK_MS;
// Longer than anything here should take, shorter than the time after which clients give up.
const LATE_MS = 200;

/** Watches how late the event loop is, and logs it: one line a minute at most, at the end of the minute. */
export class LoopWatch {
  readonly #deps: LoopWatchDeps;
  readonly #delays = new Float64Array(KEPT);
  #count = 0;
  #lookedAt: number;
  #minuteAt: number;
  #late = { times: 0, longestMs: 0 };

  constructor(deps: LoopWatchDeps) {
    this.#deps = deps;
    this.#lookedAt = deps.now();
    this.#minuteAt = this.#lookedAt;
  }

  /** Watches from now on; does not keep the process alive. */
  start(): void {
    this.#lookedAt = this.#deps.now();
    setInterval(() => this.look(), LOOK_MS).unref();
  }

  /** To be called when {@link LOOK_MS} have passed: notes how much later it is. */
  look(): void {
    const now = this.#deps.now();
    const delayMs = Math.max(0, now - this.#lookedAt - LOOK_MS);
    this.#lookedAt = now;
    // The looks that were missed would have found it late too, each by less.
    for (let left = delayMs, i = 0; left >= 0 && i < KEPT; left -= LOOK_MS, i++) {
      this.#delays[this.#count++ % KEPT] = left;
    }
    if (delayMs > LATE_MS) {
      const longestMs = Math.max(this.#late.longestMs, delayMs);
      this.#late = { times: this.#late.times + 1, longestMs };
    }
    if (now - this.#minuteAt >= MINUTE_MS) this.#endMinute(now);
  }

  delay(): LoopDelay {
    const sorted = this.#delays.slice(0, this.#count).sort();
    const p99 = sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0;
    return { p99Ms: Math.round(p99), worstMs: Math.round(sorted.at(-1) ?? 0) };
  }

  #endMinute(now: number): void {
    const { times, longestMs } = this.#late;
    this.#minuteAt = now;
    this.#late = { times: 0, longestMs: 0 };
    if (times === 0) return;
    const facts = { longest_ms: Math.round(longestMs), times };
    this.#deps.log.warn(facts, `the event loop was blocked for more than ${LATE_MS} ms`);
  }
}
