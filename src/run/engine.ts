import { DeliveryDispatcher, type DeliveryDispatcherDeps } from "../deliver/delivery-dispatcher.ts";
import { FailureLines } from "../deliver/failure-lines.ts";
import { HealthRecord } from "../deliver/health-record.ts";
import { createRedeliverer } from "../deliver/redeliverer.ts";
import { everyStep } from "../domain/error.ts";
import type { LaneGauge } from "../domain/observer.ts";
import type { Loop, Part } from "../store/loop.ts";
import { WaitingSteps, type RetryDeps, keepTrying } from "../store/retry.ts";
import {
  FileFault,
  StoreError,
  type Cluster,
  type LaneRef,
  type NodeFacts,
  type Store,
  type TaskPost,
  type TaskPostOutcome,
} from "../store/store.ts";
import { OtherNodes, ProgressBoard } from "./nodes.ts";
import type { RunDeps } from "./run-end.ts";
import { Scheduler } from "./scheduler.ts";
import { TaskDispatcher, type TaskType } from "./task-dispatcher.ts";
import { Sweeper, createTrafficKeeper } from "./upkeep.ts";
import {
  createAccountWatch,
  createDelayedTasks,
  createEndWatch,
  createPauseWatch,
} from "./watches.ts";
import { WorkerDesk, type WorkerType } from "./worker-desk.ts";

type OwnParts = "store" | "cluster" | "clock" | "failed" | "giveUp" | "waitingSteps" | "health";

interface EngineDeps
  extends
    Omit<DeliveryDispatcherDeps, OwnParts>,
    Pick<RunDeps, "clock" | "retentionMs" | "taskEnded"> {
  readonly store: Store;
  /** Closed at the end. */
  readonly resources: readonly { close(): void }[];
  readonly types: ReadonlyMap<string, TaskType>;
  readonly workerTypes: ReadonlyMap<string, WorkerType>;
  /** How long a task may wait to be started while the daemon runs. */
  readonly queueDays: number;
  /** The ids of the tasks whose end clients wait for. */
  readonly awaited: () => Iterable<string>;
  /** Called with accounts that were disabled, so that their clients' waits end. */
  readonly accountsDisabled: (accountIds: ReadonlySet<number>) => void;
}

const EVERY_SECOND = "* * * * * *";
const EVERY_MINUTE = "0 * * * * *";

/**
 * Everything that happens without a request: dispatchers, and the ticks that wake them for work that has become due.
 * A step that fails for another reason than the store ends alone. After a fault of the store the engine stops, because
 * nothing that it did could be kept; in a cluster the node then joins again.
 */
export class Engine {
  readonly desk: WorkerDesk;
  readonly #deps: EngineDeps;
  readonly #giveUp = new AbortController();
  readonly #scheduler: Scheduler;
  /** To be woken after this process disabled or enabled an account; changes by other processes are polled. */
  readonly accounts: Loop;
  /** To be woken after this process paused or resumed deliveries; changes by other processes are polled. */
  readonly pauses: Loop;
  readonly progress: ProgressBoard;
  readonly #ends: Loop;
  readonly #delayed: Loop;
  readonly #tasks: TaskDispatcher;
  readonly #deliveries: DeliveryDispatcher;
  readonly #redeliverer: Loop;
  readonly #sweeper: Sweeper;
  readonly #traffic: Loop;
  readonly #parts: readonly Part[];
  readonly #health = new HealthRecord();
  readonly #others: OtherNodes;
  readonly #unsubscribe: (() => void)[] = [];
  /** False until the work of an earlier process is taken up, which looks like new work. Wakes are ignored. */
  #isRecovered = false;
  #isHalted = false;
  readonly #failures: FailureLines;

  get #cluster(): Cluster {
    return this.#deps.store.cluster;
  }

  constructor(given: EngineDeps) {
    const { cluster } = given.store;
    const failed = (error: unknown): void => this.#failed(error);
    const means = { failed, giveUp: this.#giveUp.signal, health: this.#health, cluster };
    const deps = { ...given, ...means, waitingSteps: new WaitingSteps(given) };
    this.#deps = given;
    this.#failures = new FailureLines(given, "a step of the engine failed", "error");
    this.#scheduler = new Scheduler(deps.clock);
    this.#deliveries = new DeliveryDispatcher(deps);
    const deliveriesDue = (lanes: readonly LaneRef[]): void => {
      if (this.#isRecovered) this.#deliveries.wake(lanes);
    };
    const runOf = (id: string): number | null => this.#tasks.runOf(id);
    const leaseOf = (id: string): string | null => this.desk.leaseOf(id);
    this.progress = new ProgressBoard({ ...deps, runOf, leaseOf });
    const runs = { ...deps, deliveriesDue, progress: this.progress.known };
    this.#tasks = new TaskDispatcher(runs);
    const wake = (type?: string): void => this.#wakeType(type);
    const mayReap = (): boolean => cluster.holds("reap") && this.#others.isInReach;
    this.desk = new WorkerDesk({ ...runs, types: deps.workerTypes, wake, mayReap });
    this.#others = new OtherNodes({
      ...deps,
      types: [...deps.types.keys(), ...deps.workerTypes.keys()],
      queued: wake,
      deliveries: this.#deliveries,
      outOfReach: () => this.desk.resume(),
    });
    this.accounts = createAccountWatch({
      ...deps,
      disabled: (accountIds) => this.#suspend(accountIds),
      enabled: (accountIds) => this.#resume(accountIds),
    });
    this.pauses = createPauseWatch({ ...deps, deliveries: this.#deliveries });
    this.#ends = createEndWatch({
      ...deps,
      watched: () => [...new Set([...this.#tasks.underWay(), ...deps.awaited()])],
      ended: (id) => this.#endedElsewhere(id),
    });
    this.#delayed = createDelayedTasks({ ...deps, released: wake });
    this.#redeliverer = createRedeliverer({ ...deps, deliveriesDue });
    this.#sweeper = new Sweeper({ ...deps, deliveriesDue });
    this.#traffic = createTrafficKeeper(deps);
    this.#parts = [
      this.accounts,
      this.pauses,
      this.#ends,
      this.#others.look,
      this.#others.change,
      this.progress.tell,
      this.#delayed,
      this.#redeliverer,
      this.#sweeper.loop,
      this.#traffic,
      this.#tasks,
      this.desk,
      this.#deliveries,
    ];
  }

  /** Resumes the work of an earlier process, then begins to work. */
  async start(): Promise<void> {
    // Before anything is claimed or sent.
    await this.accounts.first();
    await this.pauses.first();
    const left = { of: "earlier life" } as const;
    const { store, clock, log } = this.#deps;
    const means: RetryDeps = { clock, log, giveUp: this.#giveUp.signal };
    const requeued = await keepTrying(() => store.requeueTasks(left), means);
    const { interrupted } = await this.#deliveries.recover();
    this.#isRecovered = true;
    const { held } = await this.desk.recover();
    if (requeued > 0 || interrupted > 0 || held > 0) {
      const facts = { requeued, interrupted, held };
      log.warn(facts, "resumed the work that was in flight at the last stop");
    }
    this.#subscribe();
    this.#scheduler.every(EVERY_SECOND, () => this.#tick());
    this.#scheduler.every(EVERY_MINUTE, () => this.#tickMinute());
    this.#wakeType();
    this.#tick();
    this.#tickMinute();
  }

  /** Runs these of its types in another way from now on. */
  takeTypes(types: ReadonlyMap<string, TaskType>): void {
    this.#tasks.takeTypes(types);
  }

  /** As the store's, and starts tasks whose types have free slots and no queue. */
  insertTasks(post: TaskPost): Promise<TaskPostOutcome> {
    return (this.#isRecovered ? this.#tasks : this.#deps.store).insertTasks(post);
  }

  wake(types: ReadonlySet<string>): void {
    for (const type of types) this.#wakeType(type);
  }

  /** Stops the run of a task whose cancellation is on disk; a worker is notified at its next heartbeat. */
  cancel(id: string): void {
    this.#tasks.cancel(id);
    this.desk.cancel(id);
    this.progress.known.delete(id);
  }

  wakeDeliveries(lanes: readonly LaneRef[]): void {
    if (this.#isRecovered) this.#deliveries.wakeAny(lanes);
  }

  /** Notes that the wall clock was set forward (or back) by so many milliseconds. */
  clockWasSet(byMs: number): void {
    if (!this.#isHalted) this.desk.clockWasSet(this.#deliveries.clockWasSet(byMs));
  }

  health(): ReturnType<HealthRecord["counts"]> {
    return this.#health.counts(this.#deps.clock.monotonic());
  }

  facts(): Omit<NodeFacts, "url"> {
    return { ...this.health(), running: this.#tasks.running(), sending: this.lanes.underWay };
  }

  get lanes(): LaneGauge {
    return this.#deliveries.gauge;
  }

  /** True after a fault of the store, which stops all work. */
  get isHalted(): boolean {
    return this.#isHalted;
  }

  /** Settles at a moment when nothing runs, is in flight, or is due. */
  async idle(): Promise<void> {
    do {
      this.#tasks.tick();
      this.#deliveries.pump();
      await this.quiet();
    } while (!this.#isHalted && !this.#parts.every((part) => part.isIdle()));
  }

  /** Begins nothing new, and reports so to workers; work in progress goes on. */
  drain(): void {
    this.desk.announceStop();
    this.#drain();
  }

  async quiet(): Promise<void> {
    await Promise.all(this.#parts.map((part) => part.quiet()));
  }

  /** Tasks go back to the queue, attempts become interrupted; the rest is left to the next start. */
  abort(): void {
    this.#scheduler.drain();
    this.#giveUp.abort();
    for (const part of this.#parts) part.abort();
    for (const stop of this.#unsubscribe.splice(0)) stop();
  }

  /** Stores the clock readings, closes connections, and ends helper processes. To be called when it is quiet. */
  async close(): Promise<void> {
    // After a failed start the file may already be another process's.
    const keepers = this.#isRecovered ? [this.#sweeper] : [];
    await everyStep([...keepers, ...this.#deps.resources].map((each) => () => each.close()));
  }

  #suspend(accountIds: ReadonlySet<number>): void {
    this.#tasks.suspend(accountIds);
    this.#deliveries.suspend(accountIds);
    this.#deps.accountsDisabled(accountIds);
  }

  #resume(accountIds: ReadonlySet<number>): void {
    this.#wakeType();
    void this.#deliveries.resume(accountIds).catch((error: unknown) => this.#failed(error));
  }

  #wakeType(type?: string): void {
    if (!this.#isRecovered) return;
    this.#tasks.wake(type);
    this.desk.wake(type);
  }

  #endedElsewhere(id: string): void {
    this.#tasks.cancel(id);
    this.progress.known.delete(id);
    this.#deps.taskEnded(id);
  }

  #subscribe(): void {
    if (!this.#cluster.isShared) return;
    const { store } = this.#deps;
    this.#unsubscribe.push(
      this.#cluster.onChange(() => this.#nodesChanged()),
      store.watch(({ types, lanes, ended }) => {
        for (const type of types) this.#wakeType(type);
        if (lanes.length > 0) this.wakeDeliveries(lanes);
        for (const id of ended) this.#endedElsewhere(id);
      }),
    );
    this.#nodesChanged();
  }

  #nodesChanged(): void {
    this.#abandon();
    this.#deliveries.divide();
    this.#others.change.wake();
  }

  #abandon(): void {
    this.#tasks.abandon();
    this.#deliveries.abandon();
  }

  #tick(): void {
    const cluster = this.#cluster;
    // After a suspend of this process, other nodes may have taken over its work.
    if (!cluster.isMember()) this.#abandon();
    this.accounts.wake();
    this.pauses.wake();
    this.#ends.wake();
    this.#others.look.wake();
    this.progress.tell.wake();
    if (cluster.holds("release")) this.#delayed.wake();
    if (cluster.holds("orders")) this.#redeliverer.wake();
    this.#tasks.tick();
    this.desk.tick();
    this.#deliveries.pump();
  }

  #tickMinute(): void {
    this.#sweeper.loop.wake();
    this.#traffic.wake();
    this.#others.change.wake();
  }

  #drain(): void {
    this.#cluster.resign();
    this.#scheduler.drain();
    for (const part of this.#parts) part.drain();
  }

  #failed(error: unknown): void {
    // A record that a stop left undone is not a fault: the next start resumes it.
    if (this.#isHalted || this.#giveUp.signal.aborted) return;
    if (error instanceof StoreError && !error.isPassing) this.#halt(error);
    else this.#failures.note("step", { err: error });
  }

  #halt(error: StoreError): void {
    if (this.#cluster.isShared) {
      if (!this.#cluster.isMember()) return;
      this.#deps.log.error({ err: error }, "the engine stopped; this node joins again");
      this.#cluster.rejoin(error.message);
      return;
    }
    this.#isHalted = true;
    this.#drain();
    // The fault of a file has its own remedy: a restart alone would lose the file.
    const effect = error instanceof FileFault ? "" : "; a restart resumes the work in flight";
    this.#deps.log.error({ err: error }, `the engine stopped${effect}`);
  }
}
