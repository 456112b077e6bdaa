import { FailureLines } from "../deliver/failure-lines.ts";
import { setImmediate } from "../domain/clock/timers.ts";
import { decideRun } from "../domain/task/run.ts";
import { readTrace } from "../domain/task/trace.ts";
import { type Part, Steps } from "../store/loop.ts";
import { isRejected, keepTrying } from "../store/retry.ts";
import {
  isLifeOver,
  requireMember,
  StoreError,
  type ClaimedTask,
  type Store,
  type TaskPost,
  type TaskPostOutcome,
} from "../store/store.ts";
import { ClaimCredit, isInputFull, NOT_CLAIMED, type Finding } from "./claim-credit.ts";
import { runMoment, tellStart, toRunEnd, toUnstoredEnd, type RunDeps } from "./run-end.ts";
import { isEndedBySupervisor, type RunOptions, type RunOutcome, type Runner } from "./runner.ts";
import {
  reserveStarts,
  startedTasks,
  type ClaimUnderWay,
  type Starts,
  type TypeQueue,
} from "./type-queue.ts";

export interface TaskType {
  readonly runner: Runner;
  readonly retries: number;
}

interface TaskDispatcherDeps extends RunDeps {
  readonly store: Pick<
    Store,
    "insertTasks" | "claimTasks" | "finishTask" | "retryTask" | "requeueTasks" | "releaseTask"
  >;
  readonly types: ReadonlyMap<string, TaskType>;
}

interface RunUnderWay {
  readonly queue: TypeQueue;
  readonly task: ClaimedTask;
  readonly stopped: AbortController;
  /** The life of this node that claimed it. */
  readonly life: string;
  /** Monotonic; 0 if not observed. */
  readonly startedAt: number;
  /** True if it goes back to the queue as if it had not been started: its account is disabled, or it never was. */
  isUncounted: boolean;
}

type EndedRun = Exclude<RunOutcome, { kind: "aborted" }>;

/**
 * Claims queued tasks, within each type's concurrency, and gives them to their runners. It never polls: a claim follows
 * a wake, or a claim that came back full. A task whose type has a free slot and no queue is not queued.
 *
 *     wake → claim (committed) → run → finish (committed, with its deliveries)
 *     post (committed as running) ↗  → claim (the same commit) → run …
 */
export class TaskDispatcher implements Part {
  readonly #deps: TaskDispatcherDeps;
  readonly #failed: FailureLines;
  readonly #queues: readonly TypeQueue[];
  readonly #byType: ReadonlyMap<string, TypeQueue>;
  readonly #runs = new Map<string, RunUnderWay>();
  #isDraining = false;
  #isAborted = false;
  /** Claims, and runs until their end is on disk. */
  readonly #steps = new Steps();

  constructor(deps: TaskDispatcherDeps) {
    this.#deps = deps;
    this.#failed = new FailureLines(deps, "a run failed");
    this.#queues = [...deps.types].map(([type, { runner, retries }]) => {
      const credit = new ClaimCredit(runner.concurrency);
      const claims = new Set<ClaimUnderWay>();
      return { type, runner, retries, running: 0, recording: 0, credit, claims };
    });
    this.#byType = new Map(this.#queues.map((queue) => [queue.type, queue]));
  }

  /** Notes that tasks may be queued, of one type or of any. */
  wake(type?: string): void {
    for (const queue of this.#queues) {
      if (type !== undefined && queue.type !== type) continue;
      queue.credit.wake();
      this.#pump(queue);
    }
  }

  /**
   * Has posted tasks inserted, and starts those for which their types have free slots and no queue: on disk they are
   * never queued. They begin after the response to the post. Rejects as the store does.
   */
  insertTasks(post: TaskPost): Promise<TaskPostOutcome> {
    const { store, cluster, failed } = this.#deps;
    const isClaiming = !this.#isDraining && cluster.isMember();
    const starts = isClaiming ? reserveStarts(this.#byType, post) : [];
    if (starts.length === 0) return store.insertTasks(post);
    const ids = starts.flatMap(({ tasks }) => tasks.map(({ id }) => id));
    const starting = { ...post, starting: new Set(ids) };
    const life = cluster.self;
    const inserted = store.insertTasks(starting);
    const begun = inserted.then(
      async (outcome) => {
        await new Promise((resolve) => setImmediate(resolve));
        this.#begin(starts, { tasks: startedTasks(starting, outcome), life });
      },
      (error: unknown) => {
        this.#begin(starts, { tasks: new Map(), life });
        // They may be running on disk, and nothing here runs them.
        if (error instanceof StoreError && error.kind === "unknown") failed(error);
      },
    );
    void this.#steps.track(begun);
    return inserted;
  }

  /** Retries what the store could not do. To be called once a second. */
  tick(): void {
    for (const queue of this.#queues) this.#pump(queue);
  }

  /** Runs these types in another way from now on; runs in progress end as they began. Ignores types that it does not have. */
  takeTypes(types: ReadonlyMap<string, TaskType>): void {
    for (const queue of this.#queues) {
      const { runner, retries } = types.get(queue.type) ?? queue;
      queue.runner = runner;
      queue.retries = retries;
      queue.credit.setConcurrency(runner.concurrency);
      this.#pump(queue);
    }
  }

  /** Stops the run of a cancelled task; the result of the run is not kept. */
  cancel(id: string): void {
    this.#runs.get(id)?.stopped.abort();
    for (const { claims } of this.#queues) for (const { cancelled } of claims) cancelled.add(id);
  }

  /** The number of a task's run that is in progress here; null if none is. */
  runOf(id: string): number | null {
    return this.#runs.get(id)?.task.runs ?? null;
  }

  underWay(): Iterable<string> {
    return this.#runs.keys();
  }

  /** Runs of disabled accounts that nevertheless end count; the others go back as if they had not been started. */
  suspend(accountIds: ReadonlySet<number>): void {
    for (const run of this.#runs.values()) {
      if (!accountIds.has(run.task.accountId)) continue;
      run.isUncounted = true;
      run.stopped.abort();
    }
    for (const { claims } of this.#queues) {
      for (const { suspended } of claims) for (const id of accountIds) suspended.add(id);
    }
  }

  /** Stops the runs of an earlier life of this node, which other nodes have taken over. */
  abandon(): void {
    const { cluster, progress } = this.#deps;
    for (const [id, { life, stopped }] of this.#runs) {
      if (!isLifeOver(life, cluster)) continue;
      stopped.abort();
      // It would be reported for the run that another node begins.
      progress.delete(id);
    }
  }

  running(): readonly { readonly type: string; readonly runs: number }[] {
    return this.#queues.flatMap(({ type, running: runs }) => (runs > 0 ? { type, runs } : []));
  }

  /** True if nothing runs and nothing is left that it would claim. */
  isIdle(): boolean {
    const isLeft = !this.#isDraining && this.#queues.some(({ credit }) => credit.isLeft);
    return this.#steps.isNone && !isLeft;
  }

  quiet(): Promise<void> {
    return this.#steps.quiet();
  }

  /** Claims no more. Runs go on. */
  drain(): void {
    this.#isDraining = true;
  }

  /** Stops all runs; their tasks go back to the queue and are run again after a restart. */
  abort(): void {
    this.drain();
    this.#isAborted = true;
    for (const { stopped } of this.#runs.values()) stopped.abort();
  }

  /** Gives reserved slots to those tasks that were started, and takes the others back. */
  #begin(
    all: readonly Starts[],
    started: { readonly tasks: ReadonlyMap<string, ClaimedTask>; readonly life: string },
  ): void {
    for (const starts of all) {
      const { queue, tasks } = starts;
      queue.credit.release(tasks.length);
      queue.claims.delete(starts);
      const claimed = tasks.flatMap(({ id }) => started.tasks.get(id) ?? []);
      this.#startAll(queue, claimed, { underWay: starts, life: started.life });
      this.#pump(queue);
    }
  }

  #pump(queue: TypeQueue): void {
    const free = queue.credit.room(queue.running);
    if (this.#isDraining || free === 0 || !this.#deps.cluster.isMember()) return;
    // While nothing can be written, results must not pile up.
    if (queue.recording > queue.runner.concurrency) return;
    void this.#steps.track(this.#claim(queue, free).catch(this.#deps.failed));
  }

  async #claim(queue: TypeQueue, max: number): Promise<void> {
    const { store, clock, cluster } = this.#deps;
    const begun = queue.credit.begin(max);
    let finding: Finding = NOT_CLAIMED;
    const underWay: ClaimUnderWay = { cancelled: new Set(), suspended: new Set() };
    queue.claims.add(underWay);
    try {
      const order = { type: queue.type, max };
      let life = cluster.self;
      const claim = (): ReturnType<typeof store.claimTasks> => {
        requireMember(cluster);
        life = cluster.self;
        return store.claimTasks({ ...order, now: clock.now() });
      };
      const tasks = await keepTrying(claim, this.#deps);
      finding = { found: tasks.length, isCutShort: isInputFull(tasks) };
      this.#startAll(queue, tasks, { underWay, life });
    } finally {
      queue.credit.end(begun, finding);
      queue.claims.delete(underWay);
    }
    this.#pump(queue);
  }

  #startAll(
    queue: TypeQueue,
    tasks: readonly ClaimedTask[],
    { underWay, life }: { readonly underWay: ClaimUnderWay; readonly life: string },
  ): void {
    for (const task of tasks) {
      const isUncounted = underWay.suspended.has(task.accountId);
      if (underWay.cancelled.has(task.id)) this.#giveBack(queue, task);
      else this.#start({ queue, task, isUncounted, life });
    }
  }

  // The reported cancellation may be wrong, and no other node looks for a task claimed by a live node. The store does
  // nothing to a task that was cancelled.
  #giveBack(queue: TypeQueue, task: ClaimedTask): void {
    void this.#steps.track(
      this.#putBack({ queue, task, isUncounted: false }).catch(this.#deps.failed),
    );
  }

  #start(begun: Pick<RunUnderWay, "queue" | "task" | "isUncounted" | "life">): void {
    const { observer, clock, cluster } = this.#deps;
    const startedAt = observer?.run === undefined ? 0 : clock.monotonic();
    const run = { ...begun, stopped: new AbortController(), startedAt };
    const { queue } = run;
    tellStart(begun.task, this.#deps);
    const { id, type, runs } = begun.task;
    this.#deps.log.debug({ task: id, type, run: runs }, "a run began");
    // The claim brought it in after the stop, after its account was disabled, or after this node was lost as a member.
    run.isUncounted ||= this.#isAborted || isLifeOver(run.life, cluster);
    if (run.isUncounted) run.stopped.abort();
    const ended = this.#run(run)
      .then((outcome) => this.#end(run, outcome))
      .catch(this.#deps.failed)
      .finally(() => {
        queue.recording--;
        this.#pump(queue);
      });
    void this.#steps.track(ended);
  }

  async #run(run: RunUnderWay): Promise<RunOutcome> {
    const { queue, task, stopped } = run;
    const { id, type, tag, marketplace } = task;
    const trace = readTrace(task.traceText);
    const request = { id, type, tag, marketplace, inputText: task.inputText ?? "null", trace };
    this.#runs.set(id, run);
    queue.running++;
    const { signal } = stopped;
    const { progress } = this.#deps;
    // A stopped runner may go on reporting.
    const report: RunOptions["report"] = (said) => {
      if (!signal.aborted && this.#runs.get(id) === run) progress.set(id, said);
    };
    try {
      return await queue.runner.run(request, { signal, report });
    } finally {
      queue.running--;
      queue.recording++;
      // In another life this node may have begun the task's next run before this one had ended.
      if (this.#runs.get(id) === run) {
        this.#runs.delete(id);
        progress.delete(id);
      }
    }
  }

  // The slot is free while the end is written, and the next task for it is claimed in the same commit.
  async #end(run: RunUnderWay, outcome: RunOutcome): Promise<void> {
    const isLost = await isEndedBySupervisor(outcome, () => this.#isDraining);
    if (outcome.kind === "aborted" && outcome.isUnstarted === true) run.isUncounted = true;
    const recorded =
      outcome.kind === "aborted" || isLost ? this.#putBack(run) : this.#record(run, outcome);
    this.#pump(run.queue);
    await recorded;
  }

  async #putBack({
    queue,
    task: { seq, id, runs: run },
    isUncounted,
  }: Pick<RunUnderWay, "queue" | "task" | "isUncounted">): Promise<void> {
    const { store } = this.#deps;
    if (isUncounted) await keepTrying(() => store.releaseTask({ seq, id, run }), this.#deps);
    else await keepTrying(() => store.requeueTasks({ seq, id, run }), this.#deps);
    this.wake(queue.type);
  }

  async #record(run: RunUnderWay, outcome: EndedRun): Promise<void> {
    const { clock, health, observer } = this.#deps;
    const now = clock.monotonic();
    const { type } = run.queue;
    health.noteRun(outcome.kind === "completed", now);
    await this.#keep(run, outcome);
    this.#deps.log.debug({ task: run.task.id, type, outcome: outcome.kind }, "a run ended");
    observer?.run?.({ type, outcome: outcome.kind, ms: now - run.startedAt });
  }

  // The store does none of this to a task that was cancelled meanwhile.
  async #keep({ queue, task }: RunUnderWay, outcome: EndedRun): Promise<void> {
    const { id, seq, runs: run, failures } = task;
    const { store, clock, retentionMs, log } = this.#deps;
    const moment = runMoment(clock, retentionMs);
    const { endedAt } = moment;
    if (outcome.kind !== "completed") {
      const { type, retries } = queue;
      this.#failed.note(type, { type, task: id, reason: outcome.message });
      const decision = decideRun({ failuresBefore: failures, retries, endedAt });
      if (decision.kind === "again") {
        await keepTrying(
          () => store.retryTask({ seq, id, run, startAt: decision.startAt }),
          this.#deps,
        );
        return;
      }
    }
    let finish = { seq, id, run, ...toRunEnd(outcome, moment) };
    const write = () => keepTrying(() => store.finishTask(finish), this.#deps);
    const lanes = await write().catch((err: unknown) => {
      if (!isRejected(err)) throw err;
      log.error({ err, type: queue.type, id }, "a result could not be stored; its task fails");
      finish = { ...finish, ...toUnstoredEnd(moment) };
      return write();
    });
    if (lanes === null) {
      const facts = { type: queue.type, task: id, run };
      log.info(facts, "a run's end changed nothing: its task was cancelled, or is another run's");
      return;
    }
    this.#deps.taskEnded(id);
    this.#deps.observer?.end?.({ type: queue.type, state: finish.state });
    if (lanes.length > 0) this.#deps.deliveriesDue(lanes);
  }
}
