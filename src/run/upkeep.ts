import { PENDING_REQUEST_MS, SESSION_AGE_MS } from "../domain/account/account.ts";
import { AUDIT_KEPT_MS } from "../domain/audit/audit-entry.ts";
import type { Clock } from "../domain/clock/clock.ts";
import { DAY_MS, HOUR_MS } from "../domain/clock/duration.ts";
import { readClocks } from "../domain/clock/service-clock.ts";
import type { Logger } from "../domain/log.ts";
import { MINUTES_KEPT_MS } from "../domain/stats/time-series.ts";
import { Loop, type LoopDeps } from "../store/loop.ts";
import {
  type Cluster,
  type ExpiredTask,
  type QueuePlace,
  type RunEnd,
  type StaleBefore,
  type Store,
  StoreError,
} from "../store/store.ts";
import { type RunDeps, runMoment, toFailedEnd } from "./run-end.ts";

interface SweeperDeps extends QueueExpirerDeps, Pick<LoopDeps, "failed"> {
  readonly store: QueueExpirerDeps["store"] &
    Pick<Store, "keepClockReading" | "eraseExpired" | "eraseStale" | "reclaimSpace">;
  readonly cluster: Pick<Cluster, "holds">;
}

// Small batches, so that a request waits behind one of them for milliseconds at most.
const BATCH_MAX = 100;

/**
 * Stores the clock readings, from which retention continues after a crash. Ends tasks that were not started in time.
 * Erases expired tasks and what {@link StaleBefore} names, in small batches until nothing is left, then reclaims the
 * space. If the store is unable, the sweep stops and the next one goes on. Does nothing while another node has this role.
 */
export class Sweeper {
  /** Sweeps when it is woken. A drain ends a sweep after its current batch. */
  readonly loop: Loop;
  readonly #deps: SweeperDeps;
  readonly #queue: QueueExpirer;

  constructor(deps: SweeperDeps) {
    this.#deps = deps;
    this.#queue = new QueueExpirer(deps);
    this.loop = new Loop({ round: () => this.#sweep(), failed: deps.failed });
  }

  /** Stores the clock readings. To be called at the end, when no sweep is in progress. */
  close(): Promise<void> {
    return this.#unlessUnable(async () => {
      if (!this.#deps.cluster.holds("sweep")) return;
      await this.#keepClock();
      await this.#queue.count();
    });
  }

  async #sweep(): Promise<void> {
    const { store, clock, log, cluster } = this.#deps;
    // The node that has the role counts this time.
    if (!cluster.holds("sweep")) return this.#queue.skip();
    return this.#unlessUnable(async () => {
      await this.#keepClock();
      await this.#queue.expire(() => this.loop.isDraining);
      const expired = await this.#untilNone(async () => {
        const { looked } = await store.eraseExpired({ now: clock.steady(), max: BATCH_MAX });
        return looked;
      });
      const stale = await this.#untilNone(() => store.eraseStale(this.#stale()));
      if (expired + stale === 0) return;
      while (!this.loop.isDraining && (await store.reclaimSpace()) === "more") continue;
      if (expired > 0) {
        log.info(
          { expired },
          "expired tasks were erased, except those whose webhooks are still to be sent",
        );
      }
    });
  }

  async #unlessUnable(step: () => Promise<void>): Promise<void> {
    try {
      await step();
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      this.#deps.log.warn({ kind: error.kind }, `the retention sweep stopped: ${error.message}`);
    }
  }

  #keepClock(): Promise<void> {
    return this.#deps.store.keepClockReading(readClocks(this.#deps.clock));
  }

  // Records have times of the wall clock, and either clock may be far from the truth: records go when they are too old
  // by both clocks, or lie too far ahead of both.
  #stale(): StaleBefore & { readonly max: number } {
    const { clock, retentionMs } = this.#deps;
    const now = clock.now();
    const steady = clock.steady();
    const recordsBefore = Math.min(now, steady) - retentionMs;
    return {
      answersBefore: steady,
      decidedBefore: recordsBefore,
      pendingBefore: Math.min(now, steady) - PENDING_REQUEST_MS,
      sessionsBefore: steady - SESSION_AGE_MS,
      linksBefore: now,
      auditBefore: Math.min(now, steady) - AUDIT_KEPT_MS,
      trafficBefore: recordsBefore,
      recordsAfter: Math.max(now, steady) + retentionMs,
      max: BATCH_MAX,
    };
  }

  async #untilNone(erase: () => Promise<number>): Promise<number> {
    let total = 0;
    while (!this.loop.isDraining) {
      const erased = await erase();
      total += erased;
      if (erased === 0) break;
    }
    return total;
  }
}

interface QueueExpirerDeps extends Pick<
  RunDeps,
  "clock" | "log" | "retentionMs" | "taskEnded" | "deliveriesDue" | "observer"
> {
  readonly store: Pick<Store, "markQueue" | "expireQueued">;
  readonly queueDays: number;
}

// However long tasks may wait, there are hardly more marks than this.
const MARKS_MAX = 720;
// A minute lies between two sweeps. Anything longer than this was a pause of the machine.
const SERVED_MS_MAX = HOUR_MS;
const TYPES_LOGGED_MAX = 10;

/**
 * Ends the tasks that were not started although they could have been for {@link QueueExpirerDeps.queueDays}. Only the
 * time for which the daemon ran counts. A changed clock, a machine that is off and a stopped daemon do not count.
 */
class QueueExpirer {
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

interface TrafficKeeperDeps extends Pick<LoopDeps, "failed"> {
  readonly store: Pick<Store, "sampleQueues" | "foldTraffic">;
  readonly cluster: Pick<Cluster, "holds">;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Samples the queues and rolls old minutes up into hours, each by the node that has the role. */
export function createTrafficKeeper(deps: TrafficKeeperDeps): Loop {
  const { store, cluster, clock, log, failed } = deps;
  return new Loop({
    failed,
    async round(loop) {
      try {
        const now = clock.now();
        if (cluster.holds("sample")) await store.sampleQueues({ now });
        const before = now - MINUTES_KEPT_MS;
        const minutesBefore = before - (before % HOUR_MS);
        const mayFold = (): boolean => !loop.isDraining && cluster.holds("fold");
        while (mayFold() && (await store.foldTraffic({ minutesBefore })) === "more") continue;
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        log.warn({ kind: error.kind }, `traffic was not added up: ${error.message}`);
      }
    },
  });
}
