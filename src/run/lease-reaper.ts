import { isLastLoss, LEASE_LOSSES_MAX } from "../domain/lease/lease.ts";
import { decideRun } from "../domain/task/run.ts";
import { Loop } from "../store/loop.ts";
import { keepTrying, type RetryDeps } from "../store/retry.ts";
import type {
  Lease,
  LeaseEnd,
  LeaseEndResult,
  LeaseEnds,
  LeaseSequel,
  Store,
} from "../store/store.ts";
import { toFailedEnd, type RunDeps, type RunFailure } from "./run-end.ts";
import type { WorkerType } from "./worker-queues.ts";

interface LeaseReaperDeps extends Pick<RunDeps, keyof RetryDeps | "retentionMs" | "failed"> {
  readonly store: Pick<Store, "listDueLeases">;
  /** A type that is no longer a worker type is unknown, but its held leases still end. */
  readonly types: ReadonlyMap<string, WorkerType>;
  readonly end: (ends: LeaseEnds) => Promise<readonly LeaseEndResult[]>;
  /** True while this node may do it; asked before each step. */
  readonly mayReap: () => boolean;
}

// One write of so many holds up others for milliseconds.
const BATCH_MAX = 100;

/** Ends leases of vanished workers and of runs past their timeout, but none while leases move with the clock. */
export class LeaseReaper {
  /** Ends the leases that have run out when it is woken. At a drain it leaves the rest to the next start. */
  readonly loop: Loop;
  readonly #deps: LeaseReaperDeps;
  /** Leases that were ended in this round, with what the log says of them. */
  #ended: { readonly id: string; readonly type: string; readonly message: string }[] = [];
  #pauses = 0;
  /** How often the clock was set: reads from before and after are not comparable. */
  #steps = 0;

  constructor(deps: LeaseReaperDeps) {
    this.#deps = deps;
    this.loop = new Loop({ round: () => this.#round(), failed: deps.failed });
  }

  /** Ends nothing until `moved` settles: the clock was set, and the leases move with it. */
  pause(moved: Promise<void>): void {
    this.#steps++;
    this.#pauses++;
    void moved.finally(() => {
      this.#pauses--;
      this.loop.wake();
    });
  }

  get isPaused(): boolean {
    return this.#pauses > 0;
  }

  async #round(): Promise<void> {
    let mayHaveMore = true;
    try {
      while (mayHaveMore && !this.loop.isDraining && this.#mayGoOn(this.#steps)) {
        mayHaveMore = await this.#endDue(this.#steps);
      }
    } finally {
      this.#logEnded();
    }
  }

  #mayGoOn(steps: number): boolean {
    return steps === this.#steps && !this.isPaused && this.#deps.mayReap();
  }

  /** True when there may be more of them. */
  async #endDue(steps: number): Promise<boolean> {
    const { store, end } = this.#deps;
    const due = await this.#unlessSet(steps, (now) => store.listDueLeases({ now, max: BATCH_MAX }));
    if (due === null || due.length === 0) return false;
    const results = await this.#unlessSet(steps, async (now) => {
      const ends = due.map((lease) => this.#decide(lease, now));
      const ended = await end({ ends, workerId: null, now });
      due.forEach((lease, i) => this.#note(lease, ends[i], ended[i]));
      return ended;
    });
    // If none of them counts, heartbeats have come: another look now would find the same leases.
    return due.length === BATCH_MAX && results !== null && results.some(({ isNew }) => isNew);
  }

  #note(lease: Lease, end: LeaseEnd | undefined, result: LeaseEndResult | undefined): void {
    if (end === undefined || result?.isNew !== true) return;
    this.#ended.push({ id: lease.id, type: lease.type, message: messageOf(end) });
  }

  /** One line for each type and kind of end, with the number of leases and the first ten tasks. */
  #logEnded(): void {
    const ended = Map.groupBy(this.#ended.splice(0), ({ type, message }) => `${type} ${message}`);
    for (const group of ended.values()) {
      const [{ type, message } = { type: "", message: "" }] = group;
      const tasks = group.slice(0, IDS_MAX).map(({ id }) => id);
      this.#deps.log.warn({ type, leases: group.length, tasks }, message);
    }
  }

  /** Does a step in the store, with a time that is read at every try; null when the clock was set meanwhile. */
  #unlessSet<Value>(steps: number, step: (now: number) => Promise<Value>): Promise<Value | null> {
    return keepTrying(async () => {
      // Reading the time may reveal that the clock was set.
      const now = this.#deps.clock.now();
      return steps === this.#steps && this.#deps.mayReap() ? step(now) : null;
    }, this.#deps);
  }

  #decide(lease: Lease, now: number): LeaseEnd {
    const { id, leaseId, deadlineAt } = lease;
    const end = now >= deadlineAt ? this.#timedOut(lease, now) : this.#expired(lease, now);
    return { id, leaseId, ...end };
  }

  #timedOut({ type, failures }: Lease, now: number): Pick<LeaseEnd, "how" | "sequel"> {
    const of = this.#deps.types.get(type);
    const facts = { failuresBefore: failures, retries: of?.retries ?? 0, endedAt: now };
    const decision = decideRun(facts);
    if (decision.kind === "again") {
      return { how: "timed_out", sequel: { kind: "retry", startAt: decision.startAt } };
    }
    const limit = of === undefined ? "" : ` of ${of.timeoutMs / 1000} s`;
    const message = `The worker ran past its timeout${limit}.`;
    return { how: "timed_out", sequel: this.#failed({ code: 50401, message }, now) };
  }

  #expired({ losses }: Lease, now: number): Pick<LeaseEnd, "how" | "sequel"> {
    if (!isLastLoss(losses)) {
      return { how: "expired", sequel: { kind: "requeue", isRunCounted: true } };
    }
    return { how: "expired", sequel: this.#failed({ code: 50010, message: VANISHED }, now) };
  }

  #failed(failure: Pick<RunFailure, "code" | "message">, endedAt: number): LeaseSequel {
    const { clock, retentionMs } = this.#deps;
    const moment = { endedAt, steadyAt: clock.steady(), retentionMs };
    return { kind: "finish", ...toFailedEnd({ ...failure, detailText: "null" }, moment) };
  }
}

const VANISHED =
  `${LEASE_LOSSES_MAX} workers in a row vanished while they ran the task: ` +
  "neither a heartbeat nor a result came within the lease.";

// A worker may vanish with thousands of leases: the line must stay readable.
const IDS_MAX = 10;

function messageOf({ how, sequel }: Pick<LeaseEnd, "how" | "sequel">): string {
  if (how === "timed_out") return "runs of workers went on past their type's timeout";
  return sequel.kind === "finish"
    ? `tasks failed because ${LEASE_LOSSES_MAX} workers in a row vanished with them`
    : "leases ran out without a heartbeat; their tasks are queued again";
}
