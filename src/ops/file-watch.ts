import type { Clock, Timer } from "../domain/clock/clock.ts";
import type { Logger } from "../domain/log.ts";
import { FileFault, type Store } from "../store/store.ts";

export interface FileWatchDeps {
  readonly store: Pick<Store, "checkFile" | "fault" | "lookAtFile">;
  readonly clock: Clock;
  readonly log: Logger;
  /** The database file. */
  readonly file: string;
}

// Until it looks, tasks are acknowledged that are lost with the file. A look costs three calls of stat.
const LOOK_MS = 1000;
// A start has other things to do, and a daemon that runs for less is a test.
const CHECK_AFTER_MS = 60_000;
const CHECK_EVERY_MS = 24 * 3_600_000;
const PAUSE_MS_MIN = 1000;
// The check takes a tenth of the time.
const PAUSES_PER_CHECK = 9;

/**
 * Watches the database file while it is served, even when no request comes. Every second it checks that the file is
 * still in its place and the same; a minute after a start, and then once a day, it checks the file for damage.
 */
export class FileWatch {
  readonly #deps: FileWatchDeps;
  #isClosed = false;
  #lookTimer: Timer | null = null;
  #checkTimer: Timer | null = null;

  constructor(deps: FileWatchDeps) {
    this.#deps = deps;
  }

  /** Watches until {@link close}, or until something is wrong, which is then so for good. */
  start(): void {
    this.#planLook();
    this.#planCheck(CHECK_AFTER_MS);
  }

  /** A file's fault tells what is wrong with it. */
  warnings(): readonly string[] {
    return [];
  }

  /** Stops watching. Safe to call twice. */
  close(): void {
    this.#lookTimer?.cancel();
    this.#checkTimer?.cancel();
    this.#isClosed = true;
  }

  #planLook(): void {
    this.#lookTimer = this.#deps.clock.setTimer(LOOK_MS, () => this.#look(), "tick");
  }

  #look(): void {
    this.#deps.store.lookAtFile();
    if (!this.#reportFault()) this.#planLook();
  }

  #reportFault(): boolean {
    const { store, log, file } = this.#deps;
    const fault = store.fault();
    if (this.#isClosed || !(fault instanceof FileFault)) return this.#isClosed;
    log.error({ file }, `nothing is acknowledged any more (50300): ${fault.message}`);
    this.close();
    return true;
  }

  #planCheck(afterMs: number): void {
    if (this.#isClosed) return;
    const check = (): void => void this.#check();
    this.#checkTimer = this.#deps.clock.setTimer(afterMs, check, "tick");
  }

  async #check(): Promise<void> {
    const { store, clock, log } = this.#deps;
    const startedAt = clock.monotonic();
    try {
      const step = await store.checkFile();
      if (this.#reportFault()) return;
      const tookMs = clock.monotonic() - startedAt;
      const pauseMs = Math.max(PAUSE_MS_MIN, PAUSES_PER_CHECK * tookMs);
      this.#planCheck(step === "more" ? pauseMs : CHECK_EVERY_MS);
    } catch (error) {
      if (this.#reportFault()) return;
      log.warn({ err: error }, "the database file could not be checked for damage");
      this.#planCheck(CHECK_EVERY_MS);
    }
  }
}
