import type {
  LeaseBeat,
  LeaseCompletion,
  LeaseFailure,
  LeaseOutcome,
  LeaseRef,
} from "../domain/lease/lease.ts";
import { decideRun } from "../domain/task/run.ts";
import { type Part, Steps } from "../store/loop.ts";
import { keepTrying } from "../store/retry.ts";
import {
  StoreError,
  type Lease,
  type LeasedTask,
  type LeaseEnd,
  type LeaseSequel,
  type LeaseStore,
  type WorkerLeases,
} from "../store/store.ts";
import { LeaseReaper } from "./lease-reaper.ts";
import { type EndWatch, HeldLeases, LeaseEnder, type LeaseEnderDeps } from "./leases.ts";
import { runMoment, tellStart, toCompletedEnd, toFailedEnd, type RunMoment } from "./run-end.ts";
import {
  type ClaimOrder,
  LeaseWaiters,
  type Poll,
  WorkerQueues,
  type WorkerType,
  inTime,
} from "./worker-queues.ts";

export type { ClaimOrder } from "./worker-queues.ts";
export type { WorkerType } from "./worker-queues.ts";

interface WorkerDeskDeps extends Omit<LeaseEnderDeps, "store" | "held" | "freed"> {
  readonly store: LeaseStore;
  readonly types: ReadonlyMap<string, WorkerType>;
  /** True while this node may end the leases that have run out. */
  readonly mayReap: () => boolean;
}

// In a cluster: 2 MB.
const HELD_MAX = 10_000;

/**
 * Gives tasks to external workers and takes their results (worker-protocol.md).
 *
 *     wake → claim for the first that waits (committed) → heartbeats … → end (committed, with its deliveries)
 *                                                       → run out: the reaper ends it
 *
 * While nothing is queued nothing is read from the store, however many workers wait. A request that cannot be done now is
 * rejected with a StoreError, and the worker sends it again.
 */
export class WorkerDesk implements Part {
  readonly #deps: WorkerDeskDeps;
  readonly #held: HeldLeases;
  readonly #queues: WorkerQueues;
  readonly #waiters: LeaseWaiters;
  readonly #ender: LeaseEnder;
  readonly #reaper: LeaseReaper;
  /** Steps that were begun and have not taken effect yet. */
  readonly #steps = new Steps();
  #isOpen = true;
  #isStopping = false;

  constructor(deps: WorkerDeskDeps) {
    this.#deps = deps;
    const { isShared } = deps.cluster;
    this.#held = new HeldLeases(isShared ? HELD_MAX : Infinity);
    // Other nodes give out leases of the same types too, so the store counts them.
    const countHeld = isShared ? () => 0 : (type: string) => this.#held.countOf(type);
    this.#queues = new WorkerQueues(deps.types, countHeld);
    this.#waiters = new LeaseWaiters(deps.clock);
    const freed = (type: string): void => {
      // A claim that the store cut short for the type's limit looked like the end of the queue.
      if (isShared) this.#queues.wake(type);
      this.#pump([type]);
    };
    this.#ender = new LeaseEnder({ ...deps, held: this.#held, freed });
    this.#reaper = new LeaseReaper({ ...deps, end: (ends) => this.#ender.end(ends) });
  }

  /** Gives the leases of an earlier process their full time, and reads which task has which. */
  async recover(): Promise<{ readonly held: number }> {
    const { store, clock } = this.#deps;
    // Workers may already bring results.
    const watch = this.#held.watch();
    const left = { of: "earlier life" } as const;
    const leases = await keepTrying(
      () => store.resumeLeases({ ...left, now: clock.now() }),
      this.#deps,
    );
    for (const lease of leases) if (!watch.saw(lease)) this.#held.hold(lease);
    watch.close();
    return { held: leases.length };
  }

  /** Gives all leases their full time again: no worker could extend them while the store was out of reach. */
  resume(): void {
    const { store, clock, failed } = this.#deps;
    const step = (): Promise<unknown> =>
      store.resumeLeases({ of: "ended nodes", now: clock.now() });
    const resumed = keepTrying(step, this.#deps).then(() => {}, failed);
    this.#reaper.pause(this.#steps.track(resumed));
  }

  /** Notes that tasks may be queued, of one type or of any. */
  wake(type?: string): void {
    const types = type === undefined ? [...this.#queues.types] : [type];
    for (const each of types) this.#queues.wake(each);
    this.#pump(types);
  }

  /** Notes that a task was cancelled, and with it its lease. */
  cancel(id: string): void {
    const type = this.#held.cancel(id);
    if (type !== null) this.#pump([type]);
  }

  /** Ends expired leases, and retries claims that the store could not do. To be called once a second. */
  tick(): void {
    this.#reaper.loop.wake();
    this.#pump(this.#queues.types);
  }

  /** Gives out and ends no lease until `moved` settles: the clock was set, and the leases move with it. */
  clockWasSet(moved: Promise<void>): void {
    this.#reaper.pause(moved);
    void moved.finally(() => this.#pump(this.#queues.types));
  }

  async quiet(): Promise<void> {
    await this.#reaper.loop.quiet();
    await this.#steps.quiet();
  }

  /** True if no step is in progress. Waiting workers and held leases do not count. */
  isIdle(): boolean {
    return this.#steps.isNone && this.#reaper.loop.isIdle();
  }

  /** Gives out nothing more and ends all waits; results are still accepted. */
  drain(): void {
    this.#isOpen = false;
    this.#reaper.loop.drain();
    this.#waiters.answerAll();
  }

  /** As {@link drain}: workers keep their runs, and their leases outlive the daemon. */
  abort(): void {
    this.drain();
  }

  /** Reports from now on that the daemon stops, see {@link isDraining}. */
  announceStop(): void {
    this.#isStopping = true;
  }

  waitingFor(type: string): number {
    return this.#waiters.countOf(type);
  }

  /** The lease of a task, as far as this node knows; null if it has none. */
  leaseOf(id: string): string | null {
    return this.#held.leaseOf(id);
  }

  /** True while the daemon stops. After a fault of the store it is false. */
  get isDraining(): boolean {
    return this.#isStopping;
  }

  /** Claims for a worker; waits for `waitMs` at most, and while the client is connected. */
  async claim(order: ClaimOrder): Promise<readonly LeasedTask[]> {
    if (!this.#isOpen) return [];
    const answered = this.#waiters.wait(order, () => this.#answerOver());
    this.#pump(order.types);
    return answered;
  }

  /** Extends the leases; the progress that they report is shown from now on. Those of disabled accounts are lost. */
  heartbeat(workerId: number, beats: readonly LeaseBeat[]): Promise<readonly LeaseOutcome[]> {
    return inTime(this.#steps.track(this.#extend(workerId, beats)), this.#deps);
  }

  complete(
    workerId: number,
    completions: readonly LeaseCompletion[],
  ): Promise<readonly LeaseOutcome[]> {
    const moment = this.#moment();
    const ends = completions.map(({ id, leaseId, resultText }): LeaseEnd => {
      const end = toCompletedEnd(resultText, moment);
      return { id, leaseId, how: "completed", sequel: { kind: "finish", ...end } };
    });
    return inTime(this.#end(ends, { workerId, moment }), this.#deps);
  }

  /** Queues the tasks again or finishes them as failed, as the worker wishes or as the type says. */
  fail(workerId: number, failures: readonly LeaseFailure[]): Promise<readonly LeaseOutcome[]> {
    return inTime(this.#steps.track(this.#fail(workerId, failures)), this.#deps);
  }

  release(workerId: number, leases: readonly LeaseRef[]): Promise<readonly LeaseOutcome[]> {
    const ends = leases.map(toRelease);
    return inTime(this.#end(ends, { workerId, moment: this.#moment() }), this.#deps);
  }

  // One claim for each waiting request, in their order, as long as one may find something.
  #pump(types: Iterable<string>): void {
    // Read first: reading the time may reveal that the clock was set.
    const now = this.#deps.clock.now();
    const isOpen = this.#isOpen && this.#deps.cluster.isMember();
    for (const type of isOpen ? types : []) {
      while (this.#isOpen && !this.#reaper.isPaused && this.#queues.canClaim(type)) {
        const poll = this.#waiters.first(type);
        if (poll === null) break;
        void this.#steps.track(this.#serve(poll, now));
      }
    }
    this.#answerOver();
  }

  #answerOver(): void {
    this.#waiters.answerOver((type) => this.#queues.isClaiming(type));
  }

  async #serve(poll: Poll, now: number): Promise<void> {
    const { workerId, types, gone } = poll.order;
    poll.isClaiming = true;
    const claimed = this.#claim(poll.order, now);
    let isTooLate = false;
    inTime(claimed, this.#deps).catch((error: unknown) => {
      isTooLate = true;
      poll.fail(error);
    });
    try {
      const tasks = await claimed;
      poll.isClaiming = false;
      const isGone = gone.aborted || isTooLate;
      if (isGone || !this.#isOpen) poll.answer(isGone ? [] : tasks);
      else if (tasks.length > 0) poll.answer(tasks);
      this.#pump(types);
      if (isGone && tasks.length > 0) await this.#giveBack(workerId, tasks);
    } catch (error) {
      // The others wait for the next tick, which gives the store time.
      poll.fail(error);
      this.#answerOver();
      if (!(error instanceof StoreError) || !error.isPassing) this.#deps.failed(error);
    }
  }

  async #claim({ workerId, types, max }: ClaimOrder, now: number): Promise<readonly LeasedTask[]> {
    const claims = this.#queues.begin({ types, max });
    const watch = this.#held.watch();
    try {
      const claim = { workerId, max, types: claims.types, now };
      const tasks = await this.#deps.store.claimLeases(claim);
      this.#queues.end(claims, tasks);
      const live = tasks.filter((task) => !watch.saw(task));
      const { observer, clock, progress } = this.#deps;
      const since = observer?.run === undefined ? null : clock.monotonic();
      for (const task of live) {
        const { id, leaseId, type } = task;
        this.#held.hold({ id, leaseId, type, since });
        tellStart(task, this.#deps);
        // Of an earlier lease that ended at another node.
        progress.delete(id);
        this.#deps.log.debug({ task: id, type, worker: workerId }, "a worker claimed a task");
      }
      return live;
    } catch (error) {
      this.#queues.fail(claims);
      throw error;
    } finally {
      watch.close();
    }
  }

  // Otherwise they would not run before their leases expire.
  async #giveBack(workerId: number, tasks: readonly LeasedTask[]): Promise<void> {
    const { clock } = this.#deps;
    const ends = tasks.map(toRelease);
    await keepTrying(() => this.#ender.end({ ends, workerId, now: clock.now() }), this.#deps);
  }

  async #extend(workerId: number, beats: readonly LeaseBeat[]): Promise<readonly LeaseOutcome[]> {
    const { store, clock, progress } = this.#deps;
    const watch = this.#held.watch();
    try {
      const order = { leases: beats.map(toRef), workerId, now: clock.now() };
      const outcomes = beats.length === 0 ? [] : await store.extendLeases(order);
      beats.forEach((beat, i) => {
        if (outcomes[i] === "suspended") this.#ender.noteEnd(toRelease(beat));
      });
      const live = beats.filter((beat, i) => outcomes[i] === "ok" && !watch.saw(beat));
      await this.#holdAgain({ leases: live, workerId }, watch);
      for (const beat of live) {
        if (beat.progress !== null && this.#held.isHeld(beat)) progress.set(beat.id, beat.progress);
      }
      // The lease of a disabled account is lost for the worker too.
      return outcomes.map((outcome) => (outcome === "suspended" ? "lost" : outcome));
    } finally {
      watch.close();
    }
  }

  // Those that had run out and were revived.
  async #holdAgain({ leases, workerId }: WorkerLeases, watch: EndWatch): Promise<void> {
    const revived = leases.filter((lease) => !this.#held.isHeld(lease)).map(toRef);
    if (revived.length === 0) return;
    const found = await this.#deps.store.findLeases({ leases: revived, workerId });
    for (const lease of found) {
      if (lease !== null && !watch.saw(lease)) this.#held.hold(lease);
    }
  }

  async #fail(
    workerId: number,
    failures: readonly LeaseFailure[],
  ): Promise<readonly LeaseOutcome[]> {
    const named = { leases: failures.map(toRef), workerId };
    const leases = await this.#deps.store.findLeases(named);
    const moment = this.#moment();
    const ends = failures.map((failure, i): LeaseEnd => {
      const sequel = this.#afterFailure(failure, { lease: leases[i] ?? null, moment });
      return { ...toRef(failure), how: "failed", sequel };
    });
    return this.#end(ends, { workerId, moment });
  }

  #afterFailure(
    { message, detailText, retry }: LeaseFailure,
    { lease, moment }: { readonly lease: Lease | null; readonly moment: RunMoment },
  ): LeaseSequel {
    const finish: LeaseSequel = {
      kind: "finish",
      ...toFailedEnd({ code: 50010, message, detailText }, moment),
    };
    // The store returns "lost" for such a lease in any case.
    if (lease === null || retry === false) return finish;
    const retries =
      retry === true ? Number.POSITIVE_INFINITY : (this.#deps.types.get(lease.type)?.retries ?? 0);
    const facts = { failuresBefore: lease.failures, retries, endedAt: moment.endedAt };
    const decision = decideRun(facts);
    return decision.kind === "final" ? finish : { kind: "retry", startAt: decision.startAt };
  }

  async #end(
    ends: readonly LeaseEnd[],
    { workerId, moment }: { readonly workerId: number; readonly moment: RunMoment },
  ): Promise<readonly LeaseOutcome[]> {
    if (ends.length === 0) return [];
    const ended = this.#steps.track(this.#ender.end({ ends, workerId, now: moment.endedAt }));
    return (await ended).map(({ outcome }) => outcome);
  }

  #moment(): RunMoment {
    const { clock, retentionMs } = this.#deps;
    return runMoment(clock, retentionMs);
  }
}

function toRef({ id, leaseId }: LeaseRef): LeaseRef {
  return { id, leaseId };
}

function toRelease(lease: LeaseRef): LeaseEnd {
  return { ...toRef(lease), how: "released", sequel: { kind: "requeue", isRunCounted: false } };
}
