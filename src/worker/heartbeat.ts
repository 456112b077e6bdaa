import type { Clock } from "../domain/clock/clock.ts";
import type { LeaseOutcome } from "../domain/lease/lease.ts";
import { heartbeatEveryMs, type HeldRun } from "./held-run.ts";
import { waitMsAfter, type Link } from "./link.ts";
import { heartbeatBody, parseOutcomes } from "./message.ts";
import { Waker } from "./waker.ts";

export interface HeartbeatDeps {
  readonly link: Pick<Link, "ask">;
  readonly clock: Clock;
  /** Everything that the worker holds now. */
  readonly held: () => readonly HeldRun[];
  /** Called with what the daemon says of a lease. */
  readonly onOutcome: (run: HeldRun, outcome: LeaseOutcome) => void;
  /** Called when the daemon is about to stop. */
  readonly onDrain: () => void;
}

// A lease of a second cannot use an answer that takes longer; a lease of half a minute can wait for it.
const ANSWER_MS_MIN = 1000;

/**
 * Sends one heartbeat for all leases when the first of them needs it: at a third of its time, or soon after its run
 * has reported progress.
 */
export class Heartbeat {
  readonly #deps: HeartbeatDeps;
  readonly #waker: Waker;
  readonly #end = new AbortController();

  constructor(deps: HeartbeatDeps) {
    this.#deps = deps;
    this.#waker = new Waker({ clock: deps.clock });
  }

  /** Sends heartbeats until {@link abort}. */
  async run(): Promise<void> {
    let failures = 0;
    while (!this.#end.signal.aborted) {
      const dueAt = Math.min(...this.#deps.held().map((run) => run.heartbeatDueAt));
      const leftMs = dueAt - this.#deps.clock.monotonic();
      if (leftMs > 0) await this.#waker.wait(Number.isFinite(leftMs) ? leftMs : null);
      else failures = (await this.#send(failures)) ? 0 : failures + 1;
    }
  }

  /** A heartbeat may be due sooner than it was. */
  wake(): void {
    this.#waker.wake();
  }

  /** Beats no more, and breaks off a request that is under way. */
  abort(): void {
    this.#end.abort();
    this.#waker.wake();
  }

  /** Resolves to whether the daemon took it. */
  async #send(failures: number): Promise<boolean> {
    const { link, clock, held, onOutcome, onDrain } = this.#deps;
    const runs = held();
    const everyMs = Math.min(...runs.map((run) => heartbeatEveryMs(run.leaseMs)));
    const sentAt = clock.monotonic();
    const reply = await link.ask({
      operation: "heartbeat",
      body: heartbeatBody(runs),
      read: (value) => parseOutcomes(value, runs),
      timeoutMs: Math.max(everyMs, ANSWER_MS_MIN),
      signal: this.#end.signal,
    });
    const outcomes = reply.kind === "answered" ? reply.read : null;
    for (const run of runs) {
      const waitMs = heartbeatEveryMs(run.leaseMs);
      if (outcomes !== null) run.heartbeatDueAt = sentAt + waitMs;
      // Counted from now on: a daemon that is away must not be asked without a pause.
      else run.heartbeatDueAt = clock.monotonic() + Math.min(waitMs, waitMsAfter(failures + 1));
    }
    if (reply.kind === "answered" && reply.value["drain"] === true) onDrain();
    outcomes?.forEach(({ outcome }, i) => {
      const run = runs[i];
      if (run !== undefined) onOutcome(run, outcome);
    });
    return outcomes !== null;
  }
}
