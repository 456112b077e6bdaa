import type { BodyOf } from "../api/operations.ts";
import type { Clock } from "../domain/clock/clock.ts";
import { LEASE_BATCH_MAX } from "../domain/lease/lease.ts";
import { estimateLeaseMs } from "./held-run.ts";
import { Waker } from "./held-run.ts";
import { waitMsAfter, type Link } from "./link.ts";
import { parseClaim, type ClaimedRun } from "./message.ts";

export interface ClaimerDeps {
  readonly link: Pick<Link, "ask">;
  readonly types: readonly string[];
  readonly clock: Clock;
  /** The longest that a claim waits at the daemon. */
  readonly waitSeconds: number;
  /** How many more tasks can be run now. */
  readonly freePlaces: () => number;
  /** Runs a task. Called also with a task that nobody asked for: it is leased all the same. */
  readonly take: (run: ClaimedRun, leaseMs: number) => void;
  /** Called once, at the first answer: the daemon knows the worker. */
  readonly onReady: () => void;
}

// The time that the network and a busy daemon may add to the wait.
const ANSWER_MS_MAX = 15_000;
// A draining daemon answers at once that there is nothing.
const DRAIN_REST_MS = 5000;

/**
 * Asks for tasks while a place is free: each request waits at the daemon for a while, then the next one
 * follows. The claimer itself waits only after a fault, and where the daemon answers sooner than it was asked to.
 */
export class Claimer {
  readonly #deps: ClaimerDeps;
  readonly #waker: Waker;
  readonly #end = new AbortController();
  /** How many answers in a row brought nothing and did not wait. */
  #vain = 0;
  #isReady = false;
  #restUntil = 0;
  /** The most tasks to claim. Halved after a response that was too long to be read, one more after each other one. */
  #max = LEASE_BATCH_MAX;

  constructor(deps: ClaimerDeps) {
    this.#deps = deps;
    this.#waker = new Waker({ clock: deps.clock });
  }

  /** Claims until {@link abort}. */
  async run(): Promise<void> {
    while (!this.#end.signal.aborted) {
      const restMs = this.#restUntil - this.#deps.clock.monotonic();
      if (restMs > 0) await this.#waker.wait(restMs);
      else if (this.#deps.freePlaces() <= 0) await this.#waker.wait(null);
      else await this.#claim();
    }
  }

  /** A place has become free. */
  wake(): void {
    this.#waker.wake();
  }

  /** The daemon stops: ask its successor in a while. */
  rest(): void {
    this.#restFor(DRAIN_REST_MS);
  }

  /** Claims no more, and breaks off a request that waits. */
  abort(): void {
    this.#end.abort();
    this.#waker.wake();
  }

  async #claim(): Promise<void> {
    const { link, types, clock, freePlaces } = this.#deps;
    const startedAt = clock.monotonic();
    const max = Math.min(freePlaces(), this.#max);
    // The first request does not wait: its answer says whether the token and the types are right.
    const waitSeconds = this.#isReady ? this.#deps.waitSeconds : 0;
    const order: BodyOf<"POST /v1/worker/claim"> = { types, max, wait_seconds: waitSeconds };
    const reply = await link.ask({
      operation: "claim",
      body: JSON.stringify(order),
      read: parseClaim,
      timeoutMs: waitSeconds * 1000 + ANSWER_MS_MAX,
      signal: this.#end.signal,
    });
    if (reply.kind === "answered") {
      // One by one: the tasks in a response that cannot be read spend a run each.
      if (reply.read.length > 0) this.#max = Math.min(this.#max + 1, LEASE_BATCH_MAX);
      this.#take(reply.read, { answeredAt: reply.date });
    }
    const wasLong = clock.monotonic() - startedAt >= 1000;
    const isVain =
      reply.kind !== "answered" || (reply.read.length === 0 && waitSeconds > 0 && !wasLong);
    if (isVain) {
      this.#vain++;
      // The tasks in an unreadable answer are leased all the same. Tasks are this large, so ask for fewer.
      if (reply.kind === "passing" && reply.isTooLong) this.#max = Math.ceil(max / 2);
      const retryAfterMs = reply.kind === "passing" ? reply.retryAfterMs : null;
      this.#restFor(waitMsAfter(this.#vain, { retryAfterMs }));
    } else this.#vain = 0;
  }

  #take(runs: readonly ClaimedRun[], { answeredAt }: { readonly answeredAt: number | null }): void {
    const { clock, take, onReady } = this.#deps;
    if (!this.#isReady) onReady();
    this.#isReady = true;
    const times = { answeredAt, now: clock.now() };
    for (const run of runs) {
      take(run, estimateLeaseMs({ expiresAt: run.leaseExpiresAt, ...times }));
    }
  }

  #restFor(ms: number): void {
    this.#restUntil = Math.max(this.#restUntil, this.#deps.clock.monotonic() + ms);
  }
}
