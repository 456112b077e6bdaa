import { DAY_MS, HOUR_MS } from "../domain/clock/duration.ts";
import type { ExpiredTask, QueuePlace, RunEnd, Store } from "../store/store.ts";
import { runMoment, toFailedEnd, type RunDeps } from "./run-end.ts";

export interface QueueExpirerDeps extends Pick<
  RunDeps,
  "clock" | "log" | "retentionMs" | "taskEnded" | "deliveriesDue" | "observer"
> {
  readonly store: Pick<Store, "markQueue" | "expireQueued">;
  readonly queueDays: number;
}

// However long tasks may wait, there are hardly more marks than this.
const MARKS_MAX = 720;
// A minute lies between two sweeps. Anything longer than this was a pause of the machine, in which nobody could start a
// task.
const SERVED_MS_MAX = HOUR_MS;
// Small batches, so that a request waits behind one of them for milliseconds at most.
const BATCH_MAX = 100;
const TYPES_LOGGED_MAX = 10;

/**
 * Ends the tasks that nobody started although they could have been for {@link QueueExpirerDeps.queueDays}. Only the
 * time for which the daemon ran counts: a clock that is set, a machine that is off and a daemon that is stopped bring
 * no task nearer to its end.
 */
export class QueueExpirer {
  readonly #deps: QueueExpirerDeps;
  readonly #queueMs: number;
  /** How far the time is counted, by the monotonic clock. */
  #countedAt: number;
  /** The mark up to which the whole queue was searched. */
  #doneMark: number | null = null;

  constructor(deps: QueueExpirerDeps) {
    this.#deps = deps;
    this.#queueMs = deps.queueDays * DAY_MS;
    this.#countedAt = deps.clock.monotonic();
  }

  /** Leaves the time that has passed since the last call uncounted. */
  skip(): void {
    this.#countedAt = this.#deps.clock.monotonic();
  }

  /** Counts the time that has passed since the last call. */
  async count(): Promise<number | null> {
    const { store, clock } = this.#deps;
    const now = clock.monotonic();
    const servedMs = Math.round(Math.min(now - this.#countedAt, SERVED_MS_MAX));
    const everyMs = Math.max(HOUR_MS, Math.ceil(this.#queueMs / MARKS_MAX));
    const mark = await store.markQueue({ servedMs, everyMs, queueMs: this.#queueMs });
    this.#countedAt = now;
    return mark;
  }

  /** Counts the time, and ends tasks that have waited for too long, in small batches, until `isStopping`. */
  async expire(isStopping: () => boolean): Promise<void> {
    const mark = await this.count();
    // Tasks that come into the queue later are younger than the mark.
    if (mark === null || mark === this.#doneMark) return;
    const expired: ExpiredTask[] = [];
    try {
      let place: QueuePlace | null = null;
      do {
        if (isStopping()) return;
        place = await this.#step(mark, place, expired);
      } while (place !== null);
      this.#doneMark = mark;
    } finally {
      if (expired.length > 0) this.#tell(expired);
    }
  }

  async #step(
    mark: number,
    after: QueuePlace | null,
    expired: ExpiredTask[],
  ): Promise<QueuePlace | null> {
    const { store, taskEnded, deliveriesDue, observer } = this.#deps;
    const page = await store.expireQueued({ mark, after, max: BATCH_MAX, end: this.#end() });
    expired.push(...page.tasks);
    for (const { id, type } of page.tasks) {
      taskEnded(id);
      observer?.end?.({ type, state: "failed" });
    }
    if (page.lanes.length > 0) deliveriesDue(page.lanes);
    return page.next;
  }

  #end(): RunEnd {
    const { clock, retentionMs, queueDays } = this.#deps;
    const days = queueDays === 1 ? "1 day" : `${queueDays} days`;
    const message = `The task expired in the queue: it waited there for ${days} and was not started.`;
    const detailText = JSON.stringify({ queue_days: queueDays });
    return toFailedEnd({ code: 50402, message, detailText }, runMoment(clock, retentionMs));
  }

  #tell(expired: readonly ExpiredTask[]): void {
    const types = [...new Set(expired.map(({ type }) => type))].slice(0, TYPES_LOGGED_MAX);
    this.#deps.log.warn(
      { expired: expired.length, types },
      "queued tasks failed with 50402: they were not started within limits.queue_days",
    );
  }
}
