import type { Clock, Timer } from "../domain/clock/clock.ts";
import { timeoutSignal } from "../domain/clock/timers.ts";
import type { RunOptions, RunOutcome, RunRequest, Runner } from "../run/runner.ts";
import type { DueNotes } from "./clock-desk.ts";
import type { WorkWatch } from "./work-watch.ts";

export type OrderedEnd =
  /** `text` is JSON. */
  | { readonly kind: "result"; readonly text: string }
  | { readonly kind: "error"; readonly message: string };

export interface ResultRule {
  /** Null fits all types. */
  readonly type: string | null;
  /** Null fits any tag, and none. */
  readonly tag: string | null;
  /** Null holds the run until it is finished by a request. */
  readonly end: OrderedEnd | null;
  /** By the daemon's clock. */
  readonly afterMs: number;
}

export interface RuledType {
  readonly name: string;
  readonly timeoutMs: number;
}

export interface ResultParts {
  readonly clock: Clock;
  readonly news: TaskNews;
  readonly work: WorkWatch;
  readonly notes: Pick<DueNotes, "note">;
}

const SOON_MS = 1000;

/** Ends runs with the ordered results, instead of their runners' results. */
export class OrderedResults {
  readonly #parts: ResultParts;
  readonly #types = new Set<string>();
  #rules: readonly ResultRule[] = [];
  /** How to end the runs that wait for a request to do so, by the task's id. */
  readonly #waiting = new Map<string, (end: OrderedEnd) => void>();

  constructor(parts: ResultParts) {
    this.#parts = parts;
  }

  get types(): ReadonlySet<string> {
    return this.#types;
  }

  order(rules: readonly ResultRule[]): void {
    this.#rules = rules;
  }

  clear(): void {
    this.order([]);
  }

  async finish(
    id: string,
    { end, gone }: { readonly end: OrderedEnd; readonly gone: AbortSignal },
  ): Promise<boolean> {
    // A run of a task that was posted just now is about to wait.
    const soon = AbortSignal.any([gone, timeoutSignal(SOON_MS)]);
    if (!this.#waiting.has(id)) await this.#parts.work.settled(soon).catch(() => {});
    const finish = this.#waiting.get(id);
    if (finish === undefined) return false;
    const recorded = this.#parts.news.next(id, gone);
    finish(end);
    await recorded;
    return true;
  }

  runner(type: RuledType, runner: Runner): Runner {
    this.#types.add(type.name);
    return {
      concurrency: runner.concurrency,
      run: (request, options) => {
        const rule = this.#rules.find((each) => fits(each, request));
        const timeout = { what: "run_timeout", taskId: request.id, kind: null } as const;
        const forget = this.#parts.notes.note(timeout, type.timeoutMs);
        const run =
          rule === undefined
            ? runner.run(request, options)
            : this.#run(request, { ...type, ...options, rule });
        return run.finally(forget);
      },
    };
  }

  #run(
    { id }: RunRequest,
    { rule, signal, timeoutMs }: RuledType & RunOptions & { readonly rule: ResultRule },
  ): Promise<RunOutcome> {
    const { end: ordered, afterMs } = rule;
    if (signal.aborted) return Promise.resolve({ kind: "aborted" });
    // A clock that stands still fires nothing, not even a timer of no time.
    if (ordered !== null && afterMs === 0) return Promise.resolve(toOutcome(ordered));
    return new Promise((resolve) => {
      const timers: Timer[] = [];
      const due = { what: "run_end", taskId: id, kind: null } as const;
      const forget = ordered === null ? null : this.#parts.notes.note(due, afterMs);
      const end = (outcome: RunOutcome): void => {
        forget?.();
        for (const timer of timers) timer.cancel();
        signal.removeEventListener("abort", aborted);
        this.#waiting.delete(id);
        resolve(outcome);
      };
      const aborted = (): void => end({ kind: "aborted" });
      signal.addEventListener("abort", aborted);
      const message = `The run went past its timeout of ${timeoutMs / 1000} s.`;
      const timeout = (): void => end({ kind: "timed_out", message, detail: {} });
      if (ordered === null) this.#waiting.set(id, (given) => end(toOutcome(given)));
      else timers.push(this.#parts.clock.setTimer(afterMs, () => end(toOutcome(ordered))));
      timers.push(this.#parts.clock.setTimer(timeoutMs, timeout));
    });
  }
}

function fits({ type, tag }: ResultRule, request: RunRequest): boolean {
  return (type === null || type === request.type) && (tag === null || tag === request.tag);
}

function toOutcome(end: OrderedEnd): RunOutcome {
  return end.kind === "result"
    ? { kind: "completed", resultText: end.text }
    : { kind: "failed", message: end.message, detail: {} };
}

/** Notifies waiting requests of a change of a task. */
export class TaskNews {
  readonly #waiting = new Map<string, Set<() => void>>();

  /** Settles at the next event of a task or when aborted. To be called before the task is read. */
  next(taskId: string, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(taskId) ?? new Set();
      const end = (): void => {
        signal.removeEventListener("abort", end);
        waiting.delete(end);
        if (waiting.size === 0) this.#waiting.delete(taskId);
        resolve();
      };
      signal.addEventListener("abort", end);
      this.#waiting.set(taskId, waiting.add(end));
    });
  }

  /** Notifies of a change of a task that is on disk. */
  tell(taskId: string): void {
    for (const end of [...(this.#waiting.get(taskId) ?? [])]) end();
  }
}
