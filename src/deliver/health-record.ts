import { MINUTE_MS } from "../domain/clock/duration.ts";
import { STATUS_WINDOW_MS, type FailureCount } from "../domain/stats/health.ts";

interface Minute {
  readonly startedAt: number;
  runs: number;
  runsFailed: number;
  /** By host: whether any attempt succeeded. */
  readonly receivers: Map<string, boolean>;
}

// Clients name the hosts: a minute of rubbish must neither fill the memory nor crowd out healthy hosts.
const FAILED_RECEIVERS_MAX = 500;
const RECEIVERS_MAX = 1000;

/** The results of runs and attempts in the last minutes, in memory: after a restart nothing counts as wrong. */
export class HealthRecord {
  // Times are monotonic: a clock that is set back would keep old minutes.
  #minutes: Minute[] = [];

  noteRun(isFine: boolean, now: number): void {
    const minute = this.#minute(now);
    minute.runs++;
    if (!isFine) minute.runsFailed++;
  }

  noteAttempt(host: string, isFine: boolean, now: number): void {
    const { receivers } = this.#minute(now);
    const max = isFine ? RECEIVERS_MAX : FAILED_RECEIVERS_MAX;
    if (!receivers.has(host) && receivers.size >= max) return;
    receivers.set(host, isFine || receivers.get(host) === true);
  }

  /** The counts of the window before `now`; its oldest minute is dropped entirely. */
  counts(now: number): { readonly runs: FailureCount; readonly receivers: FailureCount } {
    this.#forget(now);
    const receivers = new Map<string, boolean>();
    const runs = { all: 0, failed: 0 };
    for (const minute of this.#minutes) {
      runs.all += minute.runs;
      runs.failed += minute.runsFailed;
      for (const [host, isFine] of minute.receivers) {
        receivers.set(host, isFine || receivers.get(host) === true);
      }
    }
    const failed = [...receivers.values()].filter((isFine) => !isFine).length;
    return { runs, receivers: { all: receivers.size, failed } };
  }

  #minute(now: number): Minute {
    const last = this.#minutes.at(-1);
    if (last !== undefined && now - last.startedAt < MINUTE_MS) return last;
    this.#forget(now);
    const minute = { startedAt: now, runs: 0, runsFailed: 0, receivers: new Map() };
    this.#minutes.push(minute);
    return minute;
  }

  #forget(now: number): void {
    this.#minutes = this.#minutes.filter(({ startedAt }) => now - startedAt < STATUS_WINDOW_MS);
  }
}
