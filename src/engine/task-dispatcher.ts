import type { SteadyClock } from "../domain/clock.ts";
import { decideRun } from "../domain/retry.ts";
import type { RunOptions, RunOutcome, Runner } from "../runners/runner.ts";
import { CLAIM_INPUT_MAX, type ClaimedTask, type Store } from "../store/store.ts";
import { FailedRuns } from "./failed-runs.ts";
import type { HealthRecord } from "./health-record.ts";
import { persist, type PersistDeps } from "./persist.ts";
import type { ProgressBoard } from "./progress-board.ts";
import { runMoment, toRunEnd } from "./run-end.ts";

/** What of the store this dispatcher uses. */
export type TaskQueue = Pick<Store, "claimTasks" | "finishTask" | "retryTask" | "requeueTasks">;

/** A type of task: what runs it, and how often a failed run is tried again. */
export interface TaskType {
  readonly runner: Runner;
  readonly retries: number;
}

export interface TaskDispatcherDeps extends PersistDeps {
  readonly store: TaskQueue;
  /** By name. */
  readonly types: ReadonlyMap<string, TaskType>;
  readonly clock: SteadyClock;
  readonly retentionMs: number;
  readonly health: Pick<HealthRecord, "noteRun">;
  readonly progress: ProgressBoard;
  /** A task has ended, and that is on disk. */
  readonly taskEnded: (id: string) => void;
  /** Hosts that have an attempt due since a task finished. */
  readonly deliveriesDue: (hosts: readonly string[]) => void;
  /** The store can write no more: nothing that is run from now on could be kept. */
  readonly failed: (error: unknown) => void;
}

interface Lane extends TaskType {
  readonly type: string;
  running: number;
  /** Runs that have ended and are not on disk yet. */
  recording: number;
  /** True while the queue may hold tasks that were not claimed. */
  mayHaveWork: boolean;
  /** True while the last claim brought all that it asked for: then the next one need not wait for its answer. */
  isDeep: boolean;
  /** The claims under way: of each what was cancelled since it began, which it may have claimed just before. */
  readonly claims: Set<Set<string>>;
  /** Places that the claims under way may fill. */
  reserved: number;
  /** How often it was woken, to tell what a claim that brought less says. */
  wakes: number;
}

/**
 * Claims queued tasks, within each type's concurrency, and gives them to their runners. It never polls: a
 * claim follows a wake, or a claim that came back full.
 *
 *     wake → claim (committed) → run → finish (committed, with its deliveries)
 *                                    → claim (the same commit) → run …
 */
export class TaskDispatcher {
  readonly #deps: TaskDispatcherDeps;
  readonly #failed: FailedRuns;
  readonly #lanes: readonly Lane[];
  /** What ends a run, by the task's id. */
  readonly #runs = new Map<string, AbortController>();
  #stopping = false;
  #isAborted = false;
  #waiters: (() => void)[] = [];

  constructor(deps: TaskDispatcherDeps) {
    this.#deps = deps;
    this.#failed = new FailedRuns(deps);
    this.#lanes = [...deps.types].map(([type, { runner, retries }]) => {
      const idle = { running: 0, recording: 0, reserved: 0, wakes: 0 };
      const unknown = { mayHaveWork: false, isDeep: false };
      return { type, runner, retries, ...idle, ...unknown, claims: new Set<Set<string>>() };
    });
  }

  /** Tells that there may be queued tasks, of one type or of any. */
  wake(type?: string): void {
    for (const lane of this.#lanes) {
      if (type !== undefined && lane.type !== type) continue;
      lane.wakes++;
      lane.mayHaveWork = true;
      this.#pump(lane);
    }
  }

  /** Stops the run of a task that has been cancelled; what comes of the run is not kept. */
  cancel(id: string): void {
    this.#runs.get(id)?.abort();
    for (const { claims } of this.#lanes) for (const cancelled of claims) cancelled.add(id);
  }

  /** True when nothing runs and nothing is left to claim. */
  isIdle(): boolean {
    return this.#lanes.every((lane) => !isBusy(lane) && !lane.mayHaveWork);
  }

  /** Settles at the next moment when nothing runs. */
  async quiet(): Promise<void> {
    while (this.#lanes.some(isBusy)) {
      await new Promise<void>((resolve) => this.#waiters.push(resolve));
    }
  }

  /** Claims no more. What runs goes on. */
  drain(): void {
    this.#stopping = true;
  }

  /** Stops what runs; it goes back to the queue and is run again after a restart. */
  async stop(): Promise<void> {
    this.drain();
    this.#isAborted = true;
    for (const run of this.#runs.values()) run.abort();
    await this.quiet();
  }

  #pump(lane: Lane): void {
    const { concurrency } = lane.runner;
    const free = concurrency - lane.running - lane.reserved;
    if (this.#stopping || !lane.mayHaveWork || free <= 0) return;
    if (lane.claims.size > 0 && !lane.isDeep) return;
    // Where nothing can be written results must not pile up.
    if (lane.recording > concurrency) return;
    lane.mayHaveWork = lane.isDeep;
    this.#claim(lane, free).catch(this.#deps.failed);
  }

  async #claim(lane: Lane, max: number): Promise<void> {
    const { store, clock } = this.#deps;
    const { wakes } = lane;
    const cancelled = new Set<string>();
    lane.claims.add(cancelled);
    lane.reserved += max;
    try {
      const order = { type: lane.type, max };
      const claim = (): ReturnType<TaskQueue["claimTasks"]> =>
        store.claimTasks({ ...order, now: clock.now() });
      const tasks = await persist(claim, this.#deps);
      lane.isDeep = tasks.length === max || isCutShort(tasks);
      lane.mayHaveWork = lane.isDeep || lane.wakes !== wakes;
      for (const task of tasks) if (!cancelled.has(task.id)) this.#start(lane, task);
    } finally {
      lane.reserved -= max;
      lane.claims.delete(cancelled);
      this.#settled();
    }
    this.#pump(lane);
  }

  #start(lane: Lane, task: ClaimedTask): void {
    this.#run(lane, task)
      .then((outcome) => this.#end(lane, task, outcome))
      .catch(this.#deps.failed)
      .finally(() => {
        lane.recording--;
        this.#settled();
        this.#pump(lane);
      });
  }

  async #run(lane: Lane, task: ClaimedTask): Promise<RunOutcome> {
    const { id, type, tag, marketplace } = task;
    const request = { id, type, tag, marketplace, inputText: task.inputText ?? "null" };
    const run = new AbortController();
    this.#runs.set(id, run);
    lane.running++;
    // What a claim brought in after the stop.
    if (this.#isAborted) run.abort();
    const { signal } = run;
    const { progress } = this.#deps;
    // A runner may go on to report what nobody asks for any more.
    const report: RunOptions["report"] = (said) => {
      if (!signal.aborted && this.#runs.get(id) === run) progress.note(id, said);
    };
    try {
      return await lane.runner.run(request, { signal, report });
    } finally {
      lane.running--;
      lane.recording++;
      this.#runs.delete(id);
      progress.forget(id);
    }
  }

  // The place is free while the end is written, and who gets it is claimed in the same commit: a run pays for one.
  async #end(lane: Lane, task: ClaimedTask, outcome: RunOutcome): Promise<void> {
    const recorded = this.#record(lane, task, outcome);
    this.#pump(lane);
    await recorded;
  }

  // To a task that was cancelled meanwhile the store does none of this.
  async #record(lane: Lane, task: ClaimedTask, outcome: RunOutcome): Promise<void> {
    const { id, seq, failures } = task;
    const { store, clock, retentionMs } = this.#deps;
    if (outcome.kind === "aborted") {
      await persist(() => store.requeueTasks({ seq }), this.#deps);
      this.wake(lane.type);
      return;
    }
    const moment = runMoment(clock, retentionMs);
    const { endedAt } = moment;
    this.#deps.health.noteRun(outcome.kind === "completed", clock.monotonic());
    if (outcome.kind !== "completed") {
      const { type, retries } = lane;
      this.#failed.note({ type, id, reason: outcome.message });
      const decision = decideRun({ failuresBefore: failures, retries, endedAt });
      if (decision.kind === "again") {
        await persist(() => store.retryTask({ seq, startAt: decision.startAt }), this.#deps);
        return;
      }
    }
    const finish = { seq, ...toRunEnd(outcome, moment) };
    const hosts = await persist(() => store.finishTask(finish), this.#deps);
    this.#deps.taskEnded(id);
    if (hosts.length > 0) this.#deps.deliveriesDue(hosts);
  }

  #settled(): void {
    if (this.#lanes.some(isBusy)) return;
    for (const tell of this.#waiters.splice(0)) tell();
  }
}

// The store ends a claim there, whatever is left.
function isCutShort(tasks: readonly ClaimedTask[]): boolean {
  const length = tasks.reduce((sum, { inputText }) => sum + (inputText?.length ?? 0), 0);
  return length >= CLAIM_INPUT_MAX;
}

function isBusy(lane: Lane): boolean {
  return lane.running + lane.recording + lane.claims.size > 0;
}
