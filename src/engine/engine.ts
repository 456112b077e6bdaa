import type { SteadyClock } from "../domain/clock/clock.ts";
import { everyStep } from "../domain/every-step.ts";
import type { Logger } from "../domain/log.ts";
import type { TaskProgress } from "../domain/task/progress.ts";
import type { LaneRef, Store } from "../store/store.ts";
import { DeliveryDispatcher, type DeliveryDispatcherDeps } from "./deliver/delivery-dispatcher.ts";
import { Redeliverer } from "./deliver/redeliverer.ts";
import { HealthRecord } from "./health-record.ts";
import { HeldUpSteps } from "./held-up-steps.ts";
import { WorkerDesk, type WorkerType } from "./lease/worker-desk.ts";
import { persist } from "./persist.ts";
import { ProgressBoard } from "./run/progress-board.ts";
import { RunWatch } from "./run/run-watch.ts";
import { TaskDispatcher, type TaskType } from "./run/task-dispatcher.ts";
import { Scheduler } from "./scheduler.ts";
import { AccountWatch } from "./upkeep/account-watch.ts";
import { Sweeper } from "./upkeep/sweeper.ts";
import { TrafficKeeper } from "./upkeep/traffic-keeper.ts";

type OwnParts = "store" | "failed" | "giveUp" | "heldUp" | "health";

export type EngineDeps = Omit<DeliveryDispatcherDeps, OwnParts> & {
  readonly store: Store;
  /** What is let go of at the end, after the sender. */
  readonly resources: readonly { close(): void }[];
  readonly clock: SteadyClock;
  readonly log: Logger;
  /** Types that the daemon runs itself. */
  readonly types: ReadonlyMap<string, TaskType>;
  /** Types whose tasks external workers claim. */
  readonly workerTypes: ReadonlyMap<string, WorkerType>;
  readonly retentionMs: number;
  /** How long a task may wait to be started while the daemon runs. */
  readonly queueDays: number;
  /** A task has completed or failed, and that is on disk. */
  readonly taskEnded: (id: string) => void;
  /** These accounts are disabled: what waits for their tasks has to be let in again. */
  readonly accountsDisabled: (accountIds: ReadonlySet<number>) => void;
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
  /** Where external workers get tasks and bring results. */
  readonly desk: WorkerDesk;
  readonly #deps: EngineDeps & { readonly giveUp: AbortSignal; readonly heldUp: HeldUpSteps };
  readonly #giveUp = new AbortController();
  readonly #scheduler: Scheduler;
  readonly #accounts: AccountWatch;
  readonly #runs: RunWatch;
  readonly #tasks: TaskDispatcher;
  readonly #progress = new ProgressBoard();
  readonly #deliveries: DeliveryDispatcher;
  readonly #redeliverer: Redeliverer;
  readonly #sweeper: Sweeper;
  readonly #traffic: TrafficKeeper;
  readonly #health = new HealthRecord();
  #releasing: Promise<void> | null = null;
  #isReleaseDue = false;
  /** Before that the start would take what is begun for an earlier process's; it finds by itself what is to do. */
  #isRecovered = false;
  #isDraining = false;
  #isHalted = false;

  constructor(given: EngineDeps) {
    const heldUp = new HeldUpSteps(given);
    const deps = { ...given, giveUp: this.#giveUp.signal, heldUp };
    this.#deps = deps;
    const failed = (error: unknown): void => this.#halt(error);
    this.#scheduler = new Scheduler(deps.clock);
    const health = this.#health;
    this.#deliveries = new DeliveryDispatcher({ ...deps, health, failed });
    const deliveriesDue = (lanes: readonly LaneRef[]): void => {
      if (this.#isRecovered) this.#deliveries.wake(lanes);
    };
    const runs = { ...deps, health, failed, deliveriesDue, progress: this.#progress };
    this.#tasks = new TaskDispatcher(runs);
    const wake = (type?: string): void => this.#wakeType(type);
    this.desk = new WorkerDesk({ ...runs, types: deps.workerTypes, wake });
    const atOwnRuns = {
      disabled: (accountIds: ReadonlySet<number>): void => this.#tasks.hold(accountIds),
      enabled: (): void => wake(),
    };
    const atDeliveries = {
      disabled: (accountIds: ReadonlySet<number>): void => this.#deliveries.hold([...accountIds]),
      enabled: (accountIds: ReadonlySet<number>): void =>
        void this.#deliveries.resume([...accountIds]).catch(failed),
    };
    const atWaiters = { disabled: deps.accountsDisabled, enabled(): void {} };
    const listeners = [atOwnRuns, atDeliveries, atWaiters];
    this.#accounts = new AccountWatch({ ...deps, failed, listeners });
    this.#runs = new RunWatch({
      ...{ ...deps, failed, runs: () => this.#tasks.underWay() },
      ended: (id) => {
        this.cancel(id);
        deps.taskEnded(id);
      },
    });
    this.#redeliverer = new Redeliverer({ ...deps, failed, deliveriesDue });
    this.#sweeper = new Sweeper({ ...deps, failed, deliveriesDue });
    this.#traffic = new TrafficKeeper({ ...deps, failed });
  }

  /** Takes up what an earlier process left, then begins to work. */
  async start(): Promise<void> {
    await this.#accounts.start();
    const requeued = await this.#deps.store.requeueTasks({ of: "earlier life" });
    const { interrupted } = await this.#deliveries.recover();
    this.#isRecovered = true;
    const { held } = await this.desk.recover();
    if (requeued > 0 || interrupted > 0 || held > 0) {
      const facts = { requeued, interrupted, held };
      this.#deps.log.warn(facts, "took up what was in flight at the last stop");
    }
    this.#scheduler.every(EVERY_SECOND, () => this.#tick());
    this.#scheduler.every(EVERY_MINUTE, () => {
      this.#sweeper.sweep();
      this.#traffic.tick();
    });
    this.#wakeType();
    this.#tick();
    this.#sweeper.sweep();
    this.#traffic.tick();
  }

  /** Tells that tasks of these types are queued. */
  wake(types: ReadonlySet<string>): void {
    for (const type of types) this.#wakeType(type);
  }

  /** Stops the run of a task whose cancellation is on disk; a worker is told at its next heartbeat. */
  cancel(id: string): void {
    this.#tasks.cancel(id);
    this.desk.cancel(id);
    this.#progress.forget(id);
  }

  /** Tells that this process disabled or enabled an account; of another's changes the engine hears by itself. */
  accountsChanged(): void {
    this.#accounts.tick();
  }

  /** How far a task has come that runs now; null where it does not run, or nobody said. */
  progressOf(id: string): TaskProgress | null {
    return this.#progress.of(id);
  }

  /** Tells that these lanes have an attempt due now, a first one or a retry. */
  wakeDeliveries(lanes: readonly LaneRef[]): void {
    if (this.#isRecovered) this.#deliveries.wakeAny(lanes);
  }

  /** Tells that the wall clock was set forward (or back) by so many milliseconds. */
  clockWasSet(byMs: number): void {
    if (!this.#isHalted) this.desk.clockWasSet(this.#deliveries.clockWasSet(byMs));
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
      await this.#accounts.quiet();
      await this.#runs.quiet();
      await this.#redeliverer.quiet();
      await this.#tasks.quiet();
      await this.desk.quiet();
      await this.#deliveries.quiet();
      await this.#sweeper.quiet();
      await this.#traffic.quiet();
      if (this.#isHalted) return;
    } while (!this.#isIdle());
  }

  /** Begins nothing new; settles when what is under way has ended. */
  async drain(): Promise<void> {
    this.#isDraining = true;
    this.#scheduler.stop();
    this.#accounts.drain();
    this.#runs.drain();
    this.#tasks.drain();
    this.desk.drain();
    this.#redeliverer.drain();
    this.#deliveries.drain();
    await Promise.all([this.#releasing, this.#accounts.quiet(), this.#redeliverer.quiet()]);
    await Promise.all([this.#tasks.quiet(), this.#deliveries.quiet(), this.#runs.quiet()]);
    await Promise.all([this.#sweeper.stop(), this.#traffic.stop()]);
    await this.desk.quiet();
  }

  /**
   * Breaks off what {@link drain} is still waiting for: tasks go back to the queue, attempts are recorded
   * as interrupted.
   */
  async abort(): Promise<void> {
    this.#deps.sender.abort();
    this.#giveUp.abort();
    await Promise.all([this.#tasks.stop(), this.#deliveries.quiet(), this.#redeliverer.quiet()]);
    await this.desk.quiet();
  }

  /** Closes connections, and the processes that helped. To be called after {@link drain} or {@link abort}. */
  async close(): Promise<void> {
    const { sender, resources } = this.#deps;
    await everyStep([() => sender.close(), ...resources.map((each) => () => each.close())]);
  }

  #isIdle(): boolean {
    const isTicking = this.#releasing !== null || !this.#redeliverer.isIdle();
    if (!this.#accounts.isIdle() || !this.#runs.isIdle()) return false;
    return !isTicking && this.#tasks.isIdle() && this.desk.isIdle() && this.#deliveries.isIdle();
  }

  #wakeType(type?: string): void {
    if (!this.#isRecovered) return;
    this.#tasks.wake(type);
    this.desk.wake(type);
  }

  #tick(): void {
    this.#accounts.tick();
    this.#runs.tick();
    this.#isReleaseDue = true;
    this.#beginRelease();
    this.#redeliverer.tick();
    this.desk.tick();
    this.#deliveries.pump();
  }

  #beginRelease(): void {
    if (!this.#isReleaseDue || this.#releasing !== null || this.#isDraining) return;
    this.#releasing = this.#release().finally(() => {
      this.#releasing = null;
      // A tick may have come after the last look.
      this.#beginRelease();
    });
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
        if (released > 0) this.#wakeType();
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
    this.#accounts.drain();
    this.#runs.drain();
    this.#tasks.drain();
    this.desk.halt();
    this.#redeliverer.drain();
    this.#deliveries.drain();
    this.#deps.log.error(
      { err: error },
      "the engine stopped; what was in flight is taken up again at a restart",
    );
  }
}
