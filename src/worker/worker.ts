import { createServiceClient } from "../deliver/service-client.ts";
import { CLAIM_WAIT_SECONDS_MAX, type LeaseOutcome } from "../domain/lease/lease.ts";
import { type RunOutcome, isEndedBySupervisor } from "../run/runner.ts";
import { HeldRun, type Pool } from "./held-run.ts";
import { Link, type LinkOptions } from "./link.ts";
import { Claimer, Heartbeat, type LoopParts, Waker } from "./loop.ts";
import type { ClaimedRun, Ending } from "./message.ts";
import { type Reported, Reporter } from "./reporter.ts";

export interface WorkerParts extends LoopParts {
  readonly link: Link;
  readonly pools: readonly Pool[];
  /** The longest that a claim waits at the daemon, in seconds; as long as the daemon allows unless given. */
  readonly waitSeconds?: number;
  /** Called once, when the daemon has accepted token and types. */
  readonly onReady: () => void;
}

/** Why a worker has ended: it was stopped, or the daemon refuses it permanently. */
export type WorkerEnd =
  | { readonly kind: "stopped" }
  | { readonly kind: "refused"; readonly reason: string };

// How long the worker goes on trying to report the last ends and releases.
const LAST_WORDS_MS = 4000;

/** A worker (worker-protocol.md). A task counts as held, and its place as taken, until the daemon knows how it ended. */
export class Worker {
  readonly #parts: WorkerParts;
  readonly #claimers: readonly Claimer[];
  readonly #heartbeat: Heartbeat;
  readonly #reporter: Reporter;
  readonly #waker: Waker;
  readonly #held = new Set<HeldRun>();
  /** How many of the held tasks still run. */
  #running = 0;
  #ready = 0;
  #isEnding = false;
  #graceEndsAt = Infinity;
  #end: (end: WorkerEnd) => void = () => {};
  readonly #ended = new Promise<WorkerEnd>((resolve) => (this.#end = resolve));

  constructor(parts: WorkerParts) {
    this.#parts = parts;
    this.#waker = new Waker(parts);
    this.#reporter = new Reporter(parts);
    this.#claimers = parts.pools.map((pool) => this.#newClaimer(pool));
    this.#heartbeat = new Heartbeat({
      ...parts,
      // A task that the daemon has taken back needs no heartbeat.
      held: () => [...this.#held].filter((run) => !run.isTakenBack),
      onOutcome: (run, outcome) => this.#onOutcome(run, outcome),
      onDrain: () => this.#claimers.forEach((claimer) => claimer.rest()),
    });
    void parts.link.refused.then((reason) => this.#end({ kind: "refused", reason }));
  }

  /** Works until {@link stop} or until the daemon refuses the worker. Settles when nothing is left running. */
  async work(): Promise<WorkerEnd> {
    const claiming = this.#claimers.map((claimer) => claimer.run());
    const loops = [this.#heartbeat.run(), this.#reporter.run()];
    const end = await this.#ended;
    this.#isEnding = true;
    for (const claimer of this.#claimers) claimer.abort();
    // The last answers may have come already, with tasks to give back.
    await Promise.all(claiming);
    const isStopped = end.kind === "stopped";
    const isDone = (): boolean => this.#held.size === 0;
    if (isStopped) await this.#until(isDone, () => this.#graceEndsAt);
    for (const run of this.#held) run.abort(isStopped ? "stopping" : "refused");
    const hasEnded = (): boolean => this.#running === 0;
    await this.#until(hasEnded, () => Infinity);
    const lastWordsEndAt = this.#parts.clock.monotonic() + LAST_WORDS_MS;
    if (isStopped) await this.#until(isDone, () => lastWordsEndAt);
    this.#heartbeat.abort();
    this.#reporter.abort();
    await Promise.all(loops);
    return end;
  }

  /** Claims no more. Runs have `graceMs` to end, then are stopped and released. Another call can only shorten that. */
  stop({ graceMs }: { readonly graceMs: number }): void {
    this.#graceEndsAt = Math.min(this.#graceEndsAt, this.#parts.clock.monotonic() + graceMs);
    this.#end({ kind: "stopped" });
    this.#waker.wake();
  }

  #newClaimer(pool: Pool): Claimer {
    const { pools, waitSeconds = CLAIM_WAIT_SECONDS_MAX, onReady } = this.#parts;
    return new Claimer({
      ...this.#parts,
      types: pool.types,
      waitSeconds,
      onReady: () => {
        this.#ready++;
        if (this.#ready === pools.length) onReady();
      },
      freePlaces: () => this.#freePlaces(pool),
      take: (run, leaseMs) => void this.#run(run, { pool, leaseMs }),
    });
  }

  #freePlaces(pool: Pool): number {
    return pool.runner.concurrency - [...this.#held].filter((run) => run.pool === pool).length;
  }

  async #run(claimed: ClaimedRun, hold: { readonly pool: Pool; readonly leaseMs: number }) {
    const { clock } = this.#parts;
    const isWanted = this.#freePlaces(hold.pool) > 0 && !this.#isEnding;
    const run = new HeldRun({ ...claimed, ...hold, now: clock.monotonic() });
    this.#held.add(run);
    if (!isWanted) return this.#giveBack(run);
    this.#running++;
    this.#heartbeat.wake();
    const ran = await hold.pool.runner.run(claimed.request, {
      signal: run.signal,
      report: (progress) => {
        run.noteProgress(progress, clock.monotonic());
        this.#heartbeat.wake();
      },
    });
    const isLost = await isEndedBySupervisor(ran, () => this.#isEnding);
    const outcome: RunOutcome = isLost ? { kind: "aborted" } : ran;
    run.hasEnded = true;
    this.#running--;
    this.#waker.wake();
    const ending = endingOf(run, outcome);
    const reported = ending === null ? null : await this.#reporter.report(ending);
    this.#note(run, outcome, reported);
    this.#drop(run);
  }

  /** Gives back a task that was not claimed, or that arrived too late to run. */
  async #giveBack(run: HeldRun): Promise<void> {
    run.hasEnded = true;
    await this.#reporter.report({ kind: "release", id: run.id, leaseId: run.leaseId });
    this.#drop(run);
  }

  #drop(run: HeldRun): void {
    this.#held.delete(run);
    this.#waker.wake();
    for (const claimer of this.#claimers) claimer.wake();
  }

  #onOutcome(run: HeldRun, outcome: LeaseOutcome): void {
    if (outcome === "ok") return;
    // A lease whose end is being reported may be over for the heartbeat already: this very end is the reason.
    if (run.hasEnded) this.#reporter.drop(run, outcome);
    else run.abort(outcome);
  }

  #note(run: HeldRun, outcome: RunOutcome, reported: Reported): void {
    const { log } = this.#parts;
    const facts = { task: run.id };
    const told = reported?.outcome;
    if (run.abortReason === "cancelled" || told === "cancelled") {
      log.info(facts, "the task was cancelled; its run does not count");
    } else if (run.abortReason === "lost" || told === "lost") {
      log.warn(facts, "the lease was lost; the run does not count");
    } else if (reported === null) {
      log.warn(facts, "could not report to the daemon how the run ended; the lease will run out");
    } else if (reported.detail !== null) {
      log.warn(
        { ...facts, reason: reported.detail },
        "the daemon did not take all of how the run ended",
      );
    } else if (outcome.kind === "failed" || outcome.kind === "timed_out") {
      log.warn({ ...facts, reason: outcome.message }, "the run failed");
    } else if (outcome.kind === "aborted")
      log.info(facts, "the run was stopped and its task given back");
    else log.debug(facts, "completed");
  }

  /** Waits until `isSo` holds, or until the time that `endsAt` gives, by the monotonic clock. */
  async #until(isSo: () => boolean, endsAt: () => number): Promise<void> {
    const { clock } = this.#parts;
    while (!isSo() && clock.monotonic() < endsAt()) await this.#waker.wait(endsAt());
  }
}

/** The report of a run that has ended; null where the daemon needs none, because it has taken the task back. */
function endingOf(run: HeldRun, outcome: RunOutcome): Ending | null {
  const { id, leaseId } = run;
  if (run.isTakenBack || run.abortReason === "refused") return null;
  switch (outcome.kind) {
    case "completed":
      return { kind: "complete", id, leaseId, resultText: outcome.resultText };
    case "failed":
    case "timed_out": {
      const { message, detail } = outcome;
      const retry = outcome.kind === "failed" ? (outcome.retry ?? null) : null;
      return { kind: "fail", id, leaseId, message, detail, retry };
    }
    case "aborted":
      return { kind: "release", id, leaseId };
  }
}

export type OpenWorkerOptions = Omit<WorkerParts, "link"> & Pick<LinkOptions, "url" | "token">;

/** Makes a worker with connections of its own, which are closed when it has worked. */
export function openWorker(options: OpenWorkerOptions): Pick<Worker, "work" | "stop"> {
  // A heartbeat and a report may be under way beside the claims that wait.
  const client = createServiceClient({ socketsMax: options.pools.length + 3 });
  const worker = new Worker({ ...options, link: new Link({ ...options, client }) });
  return {
    work: () => worker.work().finally(() => client.close()),
    stop: (order) => worker.stop(order),
  };
}
