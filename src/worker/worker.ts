import { aborted } from "node:util";

import type { Clock } from "../domain/clock/clock.ts";
import type { LeaseOutcome } from "../domain/lease/lease.ts";
import type { Logger } from "../domain/log.ts";
import { isEndedBySupervisor, type Runner, type RunOutcome } from "../runners/runner.ts";
import { Claimer } from "./claimer.ts";
import { Heartbeat } from "./heartbeat.ts";
import { HeldRun } from "./held-run.ts";
import type { Link } from "./link.ts";
import type { ClaimedRun, Ending } from "./message.ts";
import { Reporter, type Reported } from "./reporter.ts";
import { Waker } from "./waker.ts";

export interface WorkerDeps {
  readonly link: Link;
  readonly types: readonly string[];
  /** Runs the tasks, at most `concurrency` of them at once. */
  readonly runner: Runner;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called once, when the daemon has accepted token and types. */
  readonly onReady: () => void;
}

/** Why a worker has ended: it was stopped, or the daemon refuses it for good. */
export type WorkerEnd =
  | { readonly kind: "stopped" }
  | { readonly kind: "refused"; readonly reason: string };

// How long the worker goes on trying to report the last ends and releases.
const LAST_WORDS_MS = 4000;

/**
 * A worker (contract §7). It claims tasks of its types, runs them, sends heartbeats for all of them, and reports how
 * they ended. A task counts as held, and its place as taken, until the daemon knows how it ended.
 */
export class Worker {
  readonly #deps: WorkerDeps;
  readonly #claimer: Claimer;
  readonly #heartbeat: Heartbeat;
  readonly #reporter: Reporter;
  readonly #waker: Waker;
  readonly #held = new Set<HeldRun>();
  /** How many of the held tasks still run. */
  #running = 0;
  #isEnding = false;

  constructor(deps: WorkerDeps) {
    const { link, types, clock, onReady } = deps;
    this.#deps = deps;
    this.#waker = new Waker({ clock });
    this.#reporter = new Reporter({ link, clock });
    this.#claimer = new Claimer({
      link,
      types,
      clock,
      onReady,
      freePlaces: () => deps.runner.concurrency - this.#held.size,
      take: (run, leaseMs) => void this.#run(run, leaseMs),
    });
    this.#heartbeat = new Heartbeat({
      link,
      clock,
      // A task that the daemon has taken back needs no heartbeat.
      held: () => [...this.#held].filter((run) => !run.isTakenBack),
      onOutcome: (run, outcome) => this.#onOutcome(run, outcome),
      onDrain: () => this.#claimer.rest(),
    });
  }

  /**
   * Works until `stop` is aborted or the daemon refuses the worker. After a stop, runs have `graceMs` to end by
   * themselves; then those that still run are stopped and their tasks released. Settles when nothing is left running.
   */
  async work({ stop, graceMs }: { stop: AbortSignal; graceMs: number }): Promise<WorkerEnd> {
    const claiming = this.#claimer.run();
    const loops = [this.#heartbeat.run(), this.#reporter.run()];
    const end = await Promise.race([
      aborted(stop, this).then((): WorkerEnd => ({ kind: "stopped" })),
      this.#deps.link.refused.then((reason): WorkerEnd => ({ kind: "refused", reason })),
    ]);
    this.#isEnding = true;
    this.#claimer.abort();
    // The last answer may have come already, with tasks to give back.
    await claiming;
    if (end.kind === "stopped") await this.#untilWithin(() => this.#held.size === 0, graceMs);
    for (const run of this.#held) run.abort(end.kind === "stopped" ? "stopping" : "refused");
    await this.#untilWithin(() => this.#running === 0, null);
    if (end.kind === "stopped") await this.#untilWithin(() => this.#held.size === 0, LAST_WORDS_MS);
    this.#heartbeat.abort();
    this.#reporter.abort();
    await Promise.all(loops);
    return end;
  }

  async #run(claimed: ClaimedRun, leaseMs: number): Promise<void> {
    const { runner, clock } = this.#deps;
    const isWanted = this.#held.size < runner.concurrency && !this.#isEnding;
    const run = new HeldRun({ ...claimed, leaseMs, now: clock.monotonic() });
    this.#held.add(run);
    if (!isWanted) return this.#giveBack(run);
    this.#running++;
    this.#heartbeat.wake();
    const ran = await runner.run(claimed.request, {
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

  /** Gives back a task that nobody asked for, or that came too late to be run. */
  async #giveBack(run: HeldRun): Promise<void> {
    run.hasEnded = true;
    await this.#reporter.report({ kind: "release", id: run.id, leaseId: run.leaseId });
    this.#drop(run);
  }

  #drop(run: HeldRun): void {
    this.#held.delete(run);
    this.#waker.wake();
    this.#claimer.wake();
  }

  #onOutcome(run: HeldRun, outcome: LeaseOutcome): void {
    // A lease whose end is being reported may be over for the heartbeat already: this very end is the reason.
    if (outcome === "ok" || run.hasEnded) return;
    run.abort(outcome);
  }

  #note(run: HeldRun, outcome: RunOutcome, reported: Reported): void {
    const { log } = this.#deps;
    const facts = { task: run.id };
    if (run.abortReason === "cancelled" || reported === "cancelled") {
      log.info(facts, "the task was cancelled; its run does not count");
    } else if (run.abortReason === "lost" || reported === "lost") {
      log.warn(facts, "the lease was lost; the run does not count");
    } else if (reported === null) {
      log.warn(facts, "could not report to the daemon how the run ended; the lease will run out");
    } else if (outcome.kind === "failed" || outcome.kind === "timed_out") {
      log.warn({ ...facts, reason: outcome.message }, "the run failed");
    } else if (outcome.kind === "aborted")
      log.info(facts, "the run was stopped and its task given back");
    else log.debug(facts, "completed");
  }

  /** Waits until `isSo` holds, for `limitMs` at most; null waits without a limit. */
  async #untilWithin(isSo: () => boolean, limitMs: number | null): Promise<void> {
    const { clock } = this.#deps;
    const endsAt = clock.monotonic() + (limitMs ?? Infinity);
    while (!isSo() && clock.monotonic() < endsAt) {
      await this.#waker.wait(limitMs === null ? null : endsAt - clock.monotonic());
    }
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
    case "timed_out":
      return { kind: "fail", id, leaseId, message: outcome.message, detail: outcome.detail };
    case "aborted":
      return { kind: "release", id, leaseId };
  }
}
