import type { Clock } from "../domain/clock.ts";
import type { Logger } from "../domain/log.ts";
import type { Store } from "../store/store.ts";
import { DeliveryDispatcher, type DeliveryDispatcherDeps } from "./delivery-dispatcher.ts";
import { HealthRecord } from "./health-record.ts";
import { persist } from "./persist.ts";
import { Redeliverer } from "./redeliverer.ts";
import { Scheduler } from "./scheduler.ts";
import { Sweeper } from "./sweeper.ts";
import { TaskDispatcher, type TaskType } from "./task-dispatcher.ts";

export type EngineDeps = Omit<DeliveryDispatcherDeps, "store" | "failed" | "giveUp" | "health"> & {
  readonly store: Store;
  readonly resolver: { close(): void };
  readonly clock: Clock;
  readonly log: Logger;
  readonly types: ReadonlyMap<string, TaskType>;
  readonly retentionMs: number;
  /** A task has completed or failed, and that is on disk. */
  readonly taskEnded: (id: string) => void;
};

const EVERY_SECOND = "* * * * * *";
const EVERY_MINUTE = "0 * * * * *";
// Delayed tasks that one write lets into the queue, so that others come in between.
const RELEASE_MAX = 1000;

/**
 * Everything that happens without a request: dispatchers, and the ticks that wake them for what has become
 * due. After a fault of the store it stops, because nothing it did could be kept.
 */
export class Engine {
  readonly #deps: EngineDeps & { readonly giveUp: AbortSignal };
  readonly #giveUp = new AbortController();
  readonly #scheduler: Scheduler;
  readonly #tasks: TaskDispatcher;
  readonly #deliveries: DeliveryDispatcher;
  readonly #redeliverer: Redeliverer;
  readonly #sweeper: Sweeper;
  readonly #health = new HealthRecord();
  #releasing: Promise<void> | null = null;
  #isReleaseDue = false;
  #isDraining = false;
  #isHalted = false;

  constructor(given: EngineDeps) {
    const deps = { ...given, giveUp: this.#giveUp.signal };
    this.#deps = deps;
    const failed = (error: unknown): void => this.#halt(error);
    this.#scheduler = new Scheduler(deps.clock);
    const health = this.#health;
    this.#deliveries = new DeliveryDispatcher({ ...deps, health, failed });
    this.#tasks = new TaskDispatcher({
      ...deps,
      health,
      failed,
      deliveriesDue: (hosts) => this.#deliveries.wake(hosts),
    });
    this.#redeliverer = new Redeliverer({
      ...deps,
      failed,
      deliveriesDue: (hosts) => this.#deliveries.wake(hosts),
    });
    this.#sweeper = new Sweeper({ ...deps, failed });
  }

  /** Takes up what an earlier process left, then begins to work. */
  async start(): Promise<void> {
    const requeued = await this.#deps.store.requeueTasks({ seq: "all" });
    const { interrupted } = await this.#deliveries.recover();
    if (requeued > 0 || interrupted > 0) {
      this.#deps.log.warn({ requeued, interrupted }, "took up what was in flight at the last stop");
    }
    this.#scheduler.every(EVERY_SECOND, () => this.#tick());
    this.#scheduler.every(EVERY_MINUTE, () => this.#sweeper.sweep());
    this.#tasks.wake();
    this.#tick();
    this.#sweeper.sweep();
  }

  /** Tells that tasks of these types are queued. */
  wake(types: ReadonlySet<string>): void {
    for (const type of types) this.#tasks.wake(type);
  }

  /** Stops the run of a task whose cancellation is on disk. */
  cancel(id: string): void {
    this.#tasks.cancel(id);
  }

  /** Tells that these hosts have an attempt due now, a first one or a retry. */
  wakeDeliveries(hosts: readonly string[]): void {
    this.#deliveries.wakeAny(hosts);
  }

  /** Tells that the wall clock was set forward (or back) by so many milliseconds. */
  clockWasSet(byMs: number): void {
    if (!this.#isHalted) this.#deliveries.clockWasSet(byMs);
  }

  /** How runs and deliveries went in the last minutes. */
  health(): ReturnType<HealthRecord["counts"]> {
    return this.#health.counts(this.#deps.clock.monotonic());
  }

  /** True when nothing is worked on any more, after a fault of the store. */
  get isHalted(): boolean {
    return this.#isHalted;
  }

  /** Settles at a moment when nothing runs, is in flight, or is due. */
  async idle(): Promise<void> {
    do {
      await this.#releasing;
      await this.#redeliverer.quiet();
      await this.#tasks.quiet();
      await this.#deliveries.quiet();
      await this.#sweeper.quiet();
      if (this.#isHalted) return;
    } while (!this.#isIdle());
  }

  /** Begins nothing new; settles when what is under way has ended. */
  async drain(): Promise<void> {
    this.#isDraining = true;
    this.#scheduler.stop();
    this.#tasks.drain();
    this.#redeliverer.drain();
    this.#deliveries.drain();
    await Promise.all([this.#releasing, this.#redeliverer.quiet()]);
    await Promise.all([this.#tasks.quiet(), this.#deliveries.quiet(), this.#sweeper.stop()]);
  }

  /**
   * Breaks off what {@link drain} is still waiting for: tasks go back to the queue, attempts are recorded
   * as interrupted.
   */
  async abort(): Promise<void> {
    this.#deps.sender.abort();
    this.#giveUp.abort();
    await Promise.all([this.#tasks.stop(), this.#deliveries.quiet(), this.#redeliverer.quiet()]);
  }

  /** Closes what is left open to the network. To be called after {@link drain} or {@link abort}. */
  async close(): Promise<void> {
    await this.#deps.sender.close();
    this.#deps.resolver.close();
  }

  #isIdle(): boolean {
    const isTicking = this.#releasing !== null || !this.#redeliverer.isIdle();
    return !isTicking && this.#tasks.isIdle() && this.#deliveries.isIdle();
  }

  #tick(): void {
    this.#isReleaseDue = true;
    this.#releasing ??= this.#release().finally(() => {
      this.#releasing = null;
    });
    this.#redeliverer.tick();
    this.#deliveries.pump();
  }

  async #release(): Promise<void> {
    const { store, clock } = this.#deps;
    try {
      // Again when a tick came meanwhile, and as long as there is more: the rest would wait for the next tick.
      while (this.#isReleaseDue && !this.#isDraining) {
        const due = { now: clock.now(), max: RELEASE_MAX };
        this.#isReleaseDue = false;
        const released = await persist(() => store.releaseDelayed(due), this.#deps);
        if (released === RELEASE_MAX) this.#isReleaseDue = true;
        if (released > 0) this.#tasks.wake();
      }
    } catch (error) {
      this.#halt(error);
    }
  }

  #halt(error: unknown): void {
    // What could not be recorded before a stop is no fault: it is taken up at the next start.
    if (this.#isHalted || this.#giveUp.signal.aborted) return;
    this.#isHalted = true;
    this.#scheduler.stop();
    this.#tasks.drain();
    this.#redeliverer.drain();
    this.#deliveries.drain();
    this.#deps.log.error(
      { err: error },
      "the engine stopped; what was in flight is taken up again at a restart",
    );
  }
}
