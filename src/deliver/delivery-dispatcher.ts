import { DAY_MS } from "../domain/clock/duration.ts";
import type { LogFacts } from "../domain/log.ts";
import type { LaneGauge, Observer } from "../domain/observer.ts";
import type { PauseScope } from "../domain/webhook/delivery-pause.ts";
import {
  decideDelivery,
  INTERRUPTED,
  type AttemptResult,
  type DeliveryDecision,
} from "../domain/webhook/delivery.ts";
import {
  webhookRequest,
  type SendRequest,
  type WebhookRequest,
} from "../domain/webhook/webhook-request.ts";
import { judgeWebhookUrl, type UrlPolicy } from "../domain/webhook/webhook-url.ts";
import { type LoopDeps, type Part, Steps } from "../store/loop.ts";
import { isRejected, keepTrying, type RetryDeps } from "../store/retry.ts";
import {
  isLifeOver,
  type AttemptRef,
  type ClaimedAttempt,
  type Cluster,
  type Lane,
  type LaneRef,
  type LeftWork,
  type Store,
} from "../store/store.ts";
import { NOT_MADE, TAKEN_BACK, toRefused, withoutTexts } from "./attempt.ts";
import { Claims, loadOf, type OwnAttempt } from "./claims.ts";
import { FailureLines } from "./failure-lines.ts";
import { FairQueue, HEALTHY_MAX, type Pace } from "./fair-queue.ts";
import type { HealthRecord } from "./health-record.ts";
import type { AttemptClass, SlotLimits } from "./slots.ts";
import { TimeShifts } from "./time-shifts.ts";

export type DeliveryQueue = Pick<
  Store,
  | "claimAttempts"
  | "makeLargePostback"
  | "recordAttempt"
  | "listLanes"
  | "listDueLanes"
  | "listProvenLanes"
  | "listInFlight"
  | "shiftTimes"
  | "hastenAttempts"
>;

export interface DeliveryDispatcherDeps extends RetryDeps, Pick<LoopDeps, "failed"> {
  readonly cluster: Pick<Cluster, "self" | "isMember" | "holds" | "membership">;
  readonly observer?: Observer | undefined;
  readonly store: DeliveryQueue;
  readonly sender: {
    /** Makes one attempt. Never rejects: every end is a result. */
    send(request: SendRequest): Promise<AttemptResult>;
    /** Breaks off everything in flight: an attempt without a status ends as `interrupted`. */
    abort(): void;
  };
  readonly urlPolicy: () => UrlPolicy;
  readonly limits: SlotLimits;
  /** Waits before each retry, counted from the failure. */
  readonly retryAfterMs: readonly number[];
  readonly health: Pick<HealthRecord, "noteAttempt">;
}

// A lane that delivered within this time before a start, and whose host responded since, is healthy after it.
const HEALTHY_FOR_MS = DAY_MS;

/**
 * Claims due attempts lane by lane, sends them, and records each with what follows from it.
 *
 *     due → claim (committed) → judge, resolve, sign, send → decide → record (committed) → …
 *
 * An attempt is in flight on disk before its first packet, and its end is written before what its lane starts
 * next: a crash in between leaves it `interrupted`, to be sent again immediately.
 */
export class DeliveryDispatcher implements Part {
  readonly #deps: DeliveryDispatcherDeps;
  readonly #queue: FairQueue;
  readonly #shifts: TimeShifts;
  readonly #claims: Claims;
  readonly #failed: FailureLines;
  /** The life of this node in which it sends. */
  #life: string;
  /** Claims, shifts, and attempts that were started and are not recorded yet. */
  readonly #steps = new Steps();

  constructor(deps: DeliveryDispatcherDeps) {
    this.#deps = deps;
    this.#queue = new FairQueue(deps.limits);
    this.#shifts = new TimeShifts(deps);
    this.#claims = new Claims({
      ...deps,
      queue: this.#queue,
      shifts: this.#shifts,
      steps: this.#steps,
      start: (attempt) => this.#start(attempt),
      suspend: (accountIds) => this.suspend(accountIds),
    });
    this.#failed = new FailureLines(deps, "attempt failed");
    this.#life = deps.cluster.self;
  }

  /** Records what an earlier process left in flight as interrupted, and reads what is scheduled. */
  async recover(): Promise<{ readonly interrupted: number }> {
    const { store, clock } = this.#deps;
    this.divide();
    const interrupted = await this.takeUp({ of: "earlier life" });
    await this.#shifts.hasten();
    const healthy = { since: clock.now() - HEALTHY_FOR_MS, max: HEALTHY_MAX };
    for (const lane of await store.listProvenLanes(healthy)) this.#queue.noteHealthy(lane);
    for (const lane of await store.listLanes({ accountId: "all" })) this.#queue.note(lane);
    return { interrupted };
  }

  /** Records what was left in flight as interrupted, to be sent again immediately. Returns the number of attempts. */
  async takeUp(left: LeftWork): Promise<number> {
    const attempts = await keepTrying(() => this.#deps.store.listInFlight(left), this.#deps);
    await Promise.all(attempts.map((attempt) => this.#recordUnsent(attempt, INTERRUPTED)));
    return attempts.length;
  }

  /** Takes this node's share of the places among those nodes that are there now. */
  divide(): void {
    const { cluster } = this.#deps;
    this.#queue.divide({ self: cluster.self, members: cluster.membership() });
    this.#takeBack();
    this.pump();
  }

  async lookAtAll(): Promise<void> {
    this.#notice(await this.#readLanes("all"));
  }

  /** Reads the attempts that became due in this time, of all nodes. */
  async lookForDue(interval: { readonly since: number; readonly until: number }): Promise<void> {
    const { store } = this.#deps;
    this.#notice(await keepTrying(() => store.listDueLanes(interval), this.#deps));
  }

  /** Breaks off what is not this node's any more, after it was lost as a member: others send it again. */
  abandon(): void {
    const { cluster, sender } = this.#deps;
    if (isLifeOver(this.#life, cluster)) {
      this.#claims.takeAll();
      if (this.#queue.inFlight > 0) sender.abort();
    }
    this.#life = cluster.self;
  }

  /** Notes that these lanes have a first attempt due now. */
  wake(lanes: readonly LaneRef[]): void {
    this.#noteDue(lanes, "fresh");
    this.pump();
  }

  /** Notes that these lanes have an attempt due now, a first one or a retry. */
  wakeAny(lanes: readonly LaneRef[]): void {
    this.#noteDue(lanes, "retries");
    this.wake(lanes);
  }

  /**
   * Starts no attempt of a disabled account until {@link resume}. Attempts in flight go to their end.
   * An account that a claim reports as disabled is suspended, too.
   */
  suspend(accountIds: Iterable<number>): void {
    for (const accountId of accountIds) this.#queue.suspend(accountId);
    this.#takeBack();
  }

  get gauge(): LaneGauge {
    return this.#queue.gauge;
  }

  /** Resumes what these accounts have scheduled; they are enabled again. */
  async resume(accountIds: Iterable<number>): Promise<void> {
    for (const accountId of accountIds) {
      // Changes from now on are noted; earlier ones are read.
      this.#queue.resume(accountId);
      this.#claims.resume(accountId);
      this.#notice(await this.#readLanes(accountId));
    }
  }

  /** Starts nothing in these scopes and resumes all other lanes. Attempts in flight continue to their end. */
  async pauseOnly(scopes: readonly PauseScope[]): Promise<void> {
    const resumed = this.#queue.pauseOnly(scopes);
    this.#takeBack();
    // Changes from now on are noted; earlier ones are read.
    const ofAll = resumed.some(({ accountId }) => accountId === null);
    const accounts = new Set(resumed.map(({ accountId }) => accountId ?? "all"));
    for (const each of ofAll ? (["all"] as const) : accounts) {
      this.#notice(await this.#readLanes(each));
    }
  }

  #notice(lanes: readonly Lane[]): void {
    for (const lane of lanes) this.#queue.note(lane);
    this.pump();
  }

  /**
   * Notes that the wall clock was set forward (or back) by so many milliseconds. Scheduled attempts move by the same
   * amount: a retry after 5 minutes starts 5 minutes after the failure, independent of the wall clock. Nothing is
   * claimed until that is on disk; then this settles. Another node's role is given some seconds for it.
   */
  clockWasSet(byMs: number): Promise<void> {
    const { log } = this.#deps;
    log.warn({ byMs }, "the machine's clock was set; scheduled work moves with it");
    this.#queue.shift(byMs);
    return this.#steps.track(this.#shifts.begin(byMs).then(() => this.pump()));
  }

  /** Starts all due attempts with a free slot. Called when something changed, and once a second. */
  pump(): void {
    this.#claims.pump();
  }

  /** Ends what was prefetched of lanes that are closed; it is scheduled again. */
  #takeBack(): void {
    this.#endUnsent(this.#claims.takeBack());
  }

  #endUnsent(attempts: readonly OwnAttempt[]): void {
    for (const { attempt } of attempts) {
      const ended = this.#recordUnsent(attempt, TAKEN_BACK)
        .catch(this.#deps.failed)
        .finally(() => this.pump());
      void this.#steps.track(ended);
    }
  }

  /** True when nothing is in flight and nothing is due that would still be started. */
  isIdle(): boolean {
    return (
      this.#steps.isNone && (this.#claims.isDraining || this.#queue.isIdle(this.#deps.clock.now()))
    );
  }

  quiet(): Promise<void> {
    return this.#steps.quiet();
  }

  /** Claims no more. Attempts in flight continue within their deadline; prefetched attempts are sent. */
  drain(): void {
    this.#claims.drain();
  }

  /** Breaks off what is in flight; it is recorded as interrupted. */
  abort(): void {
    this.drain();
    this.#endUnsent(this.#claims.takeAll());
    this.#deps.sender.abort();
  }

  #start(attempt: OwnAttempt): void {
    const made = this.#make(attempt)
      .catch(this.#deps.failed)
      .finally(() => this.pump());
    void this.#steps.track(made);
  }

  async #make({ attempt, life }: OwnAttempt): Promise<void> {
    const { clock, log } = this.#deps;
    const startedAt = clock.monotonic();
    const lagMs = Math.max(0, clock.now() - attempt.dueAt);
    const { taskId: task, kind, number, host } = attempt;
    log.debug({ task, kind, attempt: number, host }, "an attempt began");
    const result = await this.#send(attempt, life);
    const ms = clock.monotonic() - startedAt;
    const recorded = this.#record(attempt, result);
    this.#queue.ended(attempt, loadOf([attempt]), toPace(result.outcome, ms));
    // The record is in the writer's queue before the claim that the free slot allows: one commit serves both, and a
    // full lane moves on one commit earlier (measured: 15 % more deliveries/s to one receiver).
    this.pump();
    const { state } = await recorded;
    const { outcome } = result;
    log.debug({ ...factsOf(attempt, result), delivery: state }, "an attempt ended");
    this.#deps.observer?.attempt?.({ kind, host, outcome, ms, lagMs, state });
  }

  async #recordUnsent(attempt: AttemptRef, result: AttemptResult): Promise<void> {
    const { state } = await this.#record(attempt, result);
    const { kind, host } = attempt;
    const { outcome } = result;
    this.#deps.observer?.attempt?.({ kind, host, outcome, ms: null, lagMs: null, state });
  }

  async #send(attempt: ClaimedAttempt, life: string): Promise<AttemptResult> {
    const { urlPolicy, sender, log, cluster } = this.#deps;
    try {
      // Judged again at every attempt: the rules may be stricter now, and the row may have been tampered with.
      const verdict = judgeWebhookUrl(attempt.url, urlPolicy());
      if (verdict.kind === "refused") return toRefused(attempt.host, verdict);
      const { accountId } = attempt;
      const request = await this.#requestOf(attempt);
      if (request === null) return NOT_MADE;
      // Others send what was claimed in a life that is over.
      if (isLifeOver(life, cluster)) return INTERRUPTED;
      return await sender.send({ ...request, target: verdict.target, accountId });
    } catch (error) {
      // A task that cannot be put into a request must not keep all others from being sent.
      log.error({ err: error, host: attempt.host }, "an attempt could not be made");
      return NOT_MADE;
    }
  }

  // A body of megabytes is put together and signed twice, which takes up to 20 ms of this thread; the store does it elsewhere.
  async #requestOf(attempt: ClaimedAttempt): Promise<WebhookRequest<string | Uint8Array> | null> {
    if (attempt.largeBytes === null) return webhookRequest(attempt);
    return keepTrying(() => this.#deps.store.makeLargePostback(attempt), this.#deps);
  }

  async #record(attempt: AttemptRef, result: AttemptResult): Promise<DeliveryDecision> {
    const { store, clock, retryAfterMs, log } = this.#deps;
    const now = clock.now();
    const setMs = this.#shifts.setMs;
    // The same moment, also if the clock is set meanwhile: the disk may be full for an hour.
    const endedAt = (): number => now + this.#shifts.setMs - setMs;
    const decide = (): DeliveryDecision =>
      decideDelivery(result.outcome, {
        endedAt: endedAt(),
        retriesUsed: attempt.retry,
        retryAfterMs,
      });
    this.#noteHealth(attempt.host, result.outcome);
    const write = (kept: AttemptResult): Promise<void> =>
      keepTrying(
        () =>
          store.recordAttempt({ attempt, result: kept, endedAt: endedAt(), decision: decide() }),
        this.#deps,
      );
    await write(result).catch((err: unknown) => {
      if (!isRejected(err)) throw err;
      log.error(
        { err, task: attempt.taskId, host: attempt.host },
        "a response could not be stored",
      );
      return write(withoutTexts(result));
    });
    const decision = decide();
    if (decision.state === "scheduled") {
      const { dueAt } = decision;
      this.#queue.noteDue(attempt, decision.retry === 0 ? "fresh" : "retries", dueAt);
    }
    if (result.outcome !== "delivered") {
      this.#failed.note(attempt.host, { ...factsOf(attempt, result), delivery: decision.state });
    }
    return decision;
  }

  // A refused URL is the poster's affair, and an interrupted attempt says nothing about the receiver.
  #noteHealth(host: string, outcome: AttemptResult["outcome"]): void {
    if (outcome === "refused" || outcome === "interrupted") return;
    this.#deps.health.noteAttempt(host, outcome === "delivered", this.#deps.clock.monotonic());
  }

  #noteDue(lanes: readonly LaneRef[], of: AttemptClass): void {
    const dueAt = this.#deps.clock.now();
    for (const lane of lanes) this.#queue.noteDue(lane, of, dueAt);
  }

  // Uses the clock at the time when they are noted: a read while the clock is set may be from before or after.
  async #readLanes(accountId: number | "all"): Promise<readonly Lane[]> {
    const { store } = this.#deps;
    for (;;) {
      const shifted = this.#shifts.last;
      await shifted;
      const lanes = await keepTrying(() => store.listLanes({ accountId }), this.#deps);
      if (this.#shifts.last === shifted) return lanes;
    }
  }
}

function factsOf(attempt: AttemptRef, { outcome, httpStatus, error }: AttemptResult): LogFacts {
  const { taskId: task, kind, number, host } = attempt;
  return { task, kind, attempt: number, host, outcome, http_status: httpStatus, error };
}

// A lane that fails more slowly holds slots that others could use; a slow delivery is welcome, for a while.
const SLOW_FAILURE_MS = 1000;
const SLOW_DELIVERY_MS = 5000;

function toPace(outcome: AttemptResult["outcome"], tookMs: number): Pace {
  if (outcome === "refused" || outcome === "interrupted") return "unknown";
  const slowMs = outcome === "delivered" ? SLOW_DELIVERY_MS : SLOW_FAILURE_MS;
  return outcome !== "timed_out" && tookMs < slowMs ? "quick" : "slow";
}
