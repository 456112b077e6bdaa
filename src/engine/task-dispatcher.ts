import { expiresAt } from "../domain/retention.ts";
import { decideRun } from "../domain/retry.ts";
import { statusMessage } from "../domain/status.ts";
import type { RunOutcome, Runner } from "../runners/runner.ts";
import type { ClaimedTask, Store, TaskFinish } from "../store/store.ts";
import type { HealthRecord } from "./health-record.ts";
import { persist, type PersistDeps } from "./persist.ts";

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
  readonly retentionMs: number;
  readonly health: Pick<HealthRecord, "noteRun">;
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
  /** True while the queue may hold tasks that were not claimed. */
  mayHaveWork: boolean;
  isClaiming: boolean;
  /** Cancelled while a claim was under way, which may have claimed them just before. */
  readonly cancelled: Set<string>;
}

/**
 * Claims queued tasks, within each type's concurrency, and gives them to their runners. It never polls: a
 * claim follows a wake, or a claim that came back full.
 *
 *     wake → claim (committed) → run → finish (committed, with its deliveries) → claim …
 */
export class TaskDispatcher {
  readonly #deps: TaskDispatcherDeps;
  readonly #lanes: readonly Lane[];
  /** What ends a run, by the task's id. */
  readonly #runs = new Map<string, AbortController>();
  #stopping = false;
  #isAborted = false;
  #waiters: (() => void)[] = [];

  constructor(deps: TaskDispatcherDeps) {
    this.#deps = deps;
    this.#lanes = [...deps.types].map(([type, { runner, retries }]) => {
      const idle = { running: 0, mayHaveWork: false, isClaiming: false };
      return { type, runner, retries, ...idle, cancelled: new Set<string>() };
    });
  }

  /** Tells that there may be queued tasks, of one type or of any. */
  wake(type?: string): void {
    for (const lane of this.#lanes) {
      if (type !== undefined && lane.type !== type) continue;
      lane.mayHaveWork = true;
      this.#pump(lane);
    }
  }

  /** Stops the run of a task that has been cancelled; what comes of the run is not kept. */
  cancel(id: string): void {
    this.#runs.get(id)?.abort();
    for (const lane of this.#lanes) if (lane.isClaiming) lane.cancelled.add(id);
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
    const free = lane.runner.concurrency - lane.running;
    if (this.#stopping || lane.isClaiming || !lane.mayHaveWork || free <= 0) return;
    lane.isClaiming = true;
    lane.mayHaveWork = false;
    this.#claim(lane, free).catch(this.#deps.failed);
  }

  async #claim(lane: Lane, max: number): Promise<void> {
    const { store, clock } = this.#deps;
    const order = { type: lane.type, max };
    try {
      const claim = (): ReturnType<TaskQueue["claimTasks"]> =>
        store.claimTasks({ ...order, now: clock.now() });
      const tasks = await persist(claim, this.#deps);
      if (tasks.length === max) lane.mayHaveWork = true;
      for (const task of tasks) if (!lane.cancelled.has(task.id)) this.#start(lane, task);
    } finally {
      lane.isClaiming = false;
      lane.cancelled.clear();
      this.#settled();
    }
    this.#pump(lane);
  }

  #start(lane: Lane, task: ClaimedTask): void {
    lane.running++;
    this.#run(lane, task)
      .catch(this.#deps.failed)
      .finally(() => {
        lane.running--;
        this.#settled();
        this.#pump(lane);
      });
  }

  async #run(lane: Lane, task: ClaimedTask): Promise<void> {
    const { id, type, tag, marketplace } = task;
    const request = { id, type, tag, marketplace, inputText: task.inputText ?? "null" };
    const run = new AbortController();
    this.#runs.set(id, run);
    // What a claim brought in after the stop.
    if (this.#isAborted) run.abort();
    try {
      const outcome = await lane.runner.run(request, { signal: run.signal });
      await this.#record(lane, task, outcome);
    } finally {
      this.#runs.delete(id);
    }
  }

  // To a task that was cancelled meanwhile the store does none of this.
  async #record(lane: Lane, task: ClaimedTask, outcome: RunOutcome): Promise<void> {
    const { id, seq, failures } = task;
    const { store, clock, retentionMs } = this.#deps;
    if (outcome.kind === "aborted") {
      await persist(() => store.requeueTasks({ seq }), this.#deps);
      return;
    }
    const endedAt = clock.now();
    this.#deps.health.noteRun(outcome.kind === "completed", clock.monotonic());
    if (outcome.kind !== "completed") {
      const { retries } = lane;
      const decision = decideRun({ failuresBefore: failures, retries, endedAt });
      if (decision.kind === "again") {
        await persist(() => store.retryTask({ seq, startAt: decision.startAt }), this.#deps);
        return;
      }
    }
    const finish = toFinish(seq, outcome, { endedAt, retentionMs });
    const hosts = await persist(() => store.finishTask(finish), this.#deps);
    this.#deps.taskEnded(id);
    if (hosts.length > 0) this.#deps.deliveriesDue(hosts);
  }

  #settled(): void {
    if (this.#lanes.some(isBusy)) return;
    for (const tell of this.#waiters.splice(0)) tell();
  }
}

function isBusy(lane: Lane): boolean {
  return lane.running > 0 || lane.isClaiming;
}

/** How a run's outcome is kept: the code that the contract has for it (§1) and the error a client sees. */
function toFinish(
  seq: number,
  outcome: Exclude<RunOutcome, { kind: "aborted" }>,
  { endedAt, retentionMs }: { readonly endedAt: number; readonly retentionMs: number },
): TaskFinish {
  const end = { seq, endedAt, expiresAt: expiresAt(endedAt, retentionMs) };
  if (outcome.kind === "completed") {
    const { resultText } = outcome;
    return { ...end, state: "completed", code: 20000, resultText, errorText: null };
  }
  const code = outcome.kind === "timed_out" ? 50401 : 50010;
  const message = outcome.message === "" ? statusMessage(code) : outcome.message;
  const errorText = JSON.stringify({ message, detail: outcome.detail });
  return { ...end, state: "failed", code, resultText: null, errorText };
}
