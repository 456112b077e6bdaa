import { MINUTE_MS } from "../domain/clock/duration.ts";
import type { LogFacts } from "../domain/log.ts";
import type { RetryDeps } from "../store/retry.ts";

type LineDeps = Pick<RetryDeps, "clock" | "log">;

interface Told {
  /** Monotonic. */
  readonly at: number;
  others: number;
}

const EVERY_MS = MINUTE_MS;
const SUBJECTS_MAX = 1000;
/** Stands for every subject beyond {@link SUBJECTS_MAX}. */
const FURTHER = "";

/** Logs failures: the first of each subject immediately, then at most one a minute, with the number in between. */
export class FailureLines {
  readonly #deps: LineDeps;
  readonly #message: string;
  readonly #level: "info" | "error";
  readonly #told = new Map<string, Told>();

  constructor(deps: LineDeps, message: string, level: "info" | "error" = "info") {
    this.#deps = deps;
    this.#message = message;
    this.#level = level;
  }

  /** Notes a failure. The subject is what the lines are limited by, such as a type or a host. */
  note(subject: string, facts: LogFacts): void {
    const { clock, log } = this.#deps;
    const now = clock.monotonic();
    const counted = this.#told.has(subject) || this.#hasRoom(now) ? subject : FURTHER;
    const told = this.#told.get(counted);
    if (told !== undefined && now - told.at < EVERY_MS) {
      told.others++;
      return;
    }
    this.#told.set(counted, { at: now, others: 0 });
    log[this.#level]({ ...facts, others_since: told?.others ?? 0 }, this.#message);
  }

  #hasRoom(now: number): boolean {
    if (this.#told.size < SUBJECTS_MAX) return true;
    for (const [subject, { at }] of this.#told) {
      if (subject !== FURTHER && now - at >= EVERY_MS) this.#told.delete(subject);
    }
    return this.#told.size < SUBJECTS_MAX;
  }
}
