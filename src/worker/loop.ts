import type { BodyOf } from "../api/operations.ts";
import type { Clock } from "../domain/clock/clock.ts";
import { LEASE_BATCH_MAX, type LeaseOutcome } from "../domain/lease/lease.ts";
import type { Logger } from "../domain/log.ts";
import { type HeldRun, estimateLeaseMs, heartbeatEveryMs } from "./held-run.ts";
import { type Link, waitMsAfter } from "./link.ts";
import { type ClaimedRun, heartbeatBody, parseClaim, parseOutcomes } from "./message.ts";

/** Lets its caller wait until something has changed or its time is up. */
export class Waker {
  readonly #clock: Clock;
  readonly #waiting = new Set<() => void>();

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  /** Ends all waits. A later wait does not remember it: check the condition first, then wait. */
  wake(): void {
    for (const end of this.#waiting) end();
  }

  /** Waits for the next wake, or until the monotonic clock reaches `at`; with Infinity it waits without a limit. */
  wait(at: number): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        this.#waiting.delete(end);
        timer?.cancel();
        resolve();
      };
      const ms = at - this.#clock.monotonic();
      const timer = Number.isFinite(ms) ? this.#clock.setTimer(ms, end) : null;
      this.#waiting.add(end);
    });
  }
}

export interface LoopParts {
  readonly link: Pick<Link, "ask">;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Requests to the daemon, one after the other. */
export abstract class Loop<Parts extends LoopParts = LoopParts> extends Waker {
  protected readonly parts: Parts;
  protected readonly end = new AbortController();

  constructor(parts: Parts) {
    super(parts);
    this.parts = parts;
  }

  /** Runs until {@link abort}. */
  async run(): Promise<void> {
    while (!this.end.signal.aborted) await this.step();
  }

  /** Sends a request, or waits until one is due. */
  protected abstract step(): Promise<void>;

  /** Ends the loop and a request in progress. */
  abort(): void {
    this.end.abort();
    this.wake();
  }
}

interface ClaimerParts extends LoopParts {
  readonly types: readonly string[];
  /** The longest that a claim waits at the daemon. */
  readonly waitSeconds: number;
  /** Returns how many more tasks can be run now. */
  readonly freePlaces: () => number;
  /** Runs a task. Called also with a task that was not requested, because it is leased in any case. */
  readonly take: (run: ClaimedRun, leaseMs: number) => void;
  /** Called once, when the daemon has accepted token and types. */
  readonly onReady: () => void;
}

// The time that the network and a busy daemon may add to the wait.
const CLAIM_MS_MAX = 15_000;
// A draining daemon responds immediately without a task.
const DRAIN_REST_MS = 5000;

/** Claims tasks while a place is free. Requests wait at the daemon; the claimer itself waits only after a fault. */
export class Claimer extends Loop<ClaimerParts> {
  /** How many responses in a row had no task and did not wait. */
  #vain = 0;
  #isReady = false;
  #restUntil = 0;
  /** The most tasks to claim. Halved after a response that was too long to be read, one more after each other one. */
  #max = LEASE_BATCH_MAX;

  /** Claims nothing for a while, because the daemon is about to stop. */
  rest(): void {
    this.#restFor(DRAIN_REST_MS);
  }

  protected async step(): Promise<void> {
    if (this.#restUntil > this.parts.clock.monotonic()) await this.wait(this.#restUntil);
    else if (this.parts.freePlaces() <= 0) await this.wait(Infinity);
    else await this.#claim();
  }

  async #claim(): Promise<void> {
    const { link, types, clock, freePlaces } = this.parts;
    const startedAt = clock.monotonic();
    const max = Math.min(freePlaces(), this.#max);
    // The first request does not wait: its response shows whether the token and the types are right.
    const waitSeconds = this.#isReady ? this.parts.waitSeconds : 0;
    const order: BodyOf<"POST /v1/worker/claim"> = { types, max, wait_seconds: waitSeconds };
    const reply = await link.ask({
      operation: "claim",
      body: JSON.stringify(order),
      read: parseClaim,
      timeoutMs: waitSeconds * 1000 + CLAIM_MS_MAX,
      signal: this.end.signal,
    });
    if (reply.kind === "answered") {
      // One by one: the tasks in a response that cannot be read spend a run each.
      if (reply.read.length > 0) this.#max = Math.min(this.#max + 1, LEASE_BATCH_MAX);
      this.#take(reply.read, reply.date);
    }
    const wasLong = clock.monotonic() - startedAt >= 1000;
    const isVain =
      reply.kind !== "answered" || (reply.read.length === 0 && waitSeconds > 0 && !wasLong);
    this.#vain = isVain ? this.#vain + 1 : 0;
    if (!isVain) return;
    // The tasks in an unreadable response are nevertheless leased. Tasks are this large, so claim fewer.
    if (reply.kind === "passing" && reply.isTooLong) this.#max = Math.ceil(max / 2);
    this.#restFor(waitMsAfter(this.#vain, reply.kind === "passing" ? reply : {}));
  }

  #take(runs: readonly ClaimedRun[], answeredAt: number | null): void {
    const { clock, take, onReady } = this.parts;
    if (!this.#isReady) onReady();
    this.#isReady = true;
    const times = { answeredAt, now: clock.now() };
    for (const run of runs) {
      take(run, estimateLeaseMs({ expiresAt: run.leaseExpiresAt, ...times }));
    }
  }

  #restFor(ms: number): void {
    this.#restUntil = Math.max(this.#restUntil, this.parts.clock.monotonic() + ms);
  }
}

interface HeartbeatParts extends LoopParts {
  /** Returns all runs that need a heartbeat. */
  readonly held: () => readonly HeldRun[];
  readonly onOutcome: (run: HeldRun, outcome: LeaseOutcome) => void;
  /** Called when the daemon is about to stop. */
  readonly onDrain: () => void;
}

// A lease of a second cannot use a response that takes longer; a lease of half a minute can wait for it.
const HEARTBEAT_MS_MIN = 1000;

/** Sends one heartbeat for all leases when the first of them needs it, or soon after a run has reported progress. */
export class Heartbeat extends Loop<HeartbeatParts> {
  #failures = 0;

  protected async step(): Promise<void> {
    const dueAt = Math.min(...this.parts.held().map((run) => run.heartbeatDueAt));
    if (dueAt > this.parts.clock.monotonic()) return this.wait(dueAt);
    const { link, clock, held, onOutcome, onDrain } = this.parts;
    const runs = held();
    const everyMs = Math.min(...runs.map((run) => heartbeatEveryMs(run.leaseMs)));
    const sentAt = clock.monotonic();
    const reply = await link.ask({
      operation: "heartbeat",
      body: heartbeatBody(runs),
      read: (value) => parseOutcomes(value, runs),
      timeoutMs: Math.max(everyMs, HEARTBEAT_MS_MIN),
      signal: this.end.signal,
    });
    const outcomes = reply.kind === "answered" ? reply.read : null;
    this.#failures = outcomes === null ? this.#failures + 1 : 0;
    for (const run of runs) {
      const waitMs = heartbeatEveryMs(run.leaseMs);
      if (outcomes !== null) run.heartbeatDueAt = sentAt + waitMs;
      // From now on: a daemon that is away must not get requests without a pause.
      else run.heartbeatDueAt = clock.monotonic() + Math.min(waitMs, waitMsAfter(this.#failures));
    }
    if (reply.kind === "answered" && reply.value["drain"] === true) onDrain();
    outcomes?.forEach(({ outcome }, i) => {
      const run = runs[i];
      if (run !== undefined) onOutcome(run, outcome);
    });
  }
}
