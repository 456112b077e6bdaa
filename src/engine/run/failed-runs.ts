import type { PersistDeps } from "../persist.ts";

interface FailedRun {
  readonly type: string;
  /** The task's id. */
  readonly id: string;
  /** The reason as a client is told it. */
  readonly reason: string;
}

interface Told {
  /** Monotonic. */
  readonly at: number;
  /** Failed runs since then. */
  others: number;
}

const EVERY_MS = 60_000;

/** Logs that runs fail: for each type the first at once, then at most one a minute, with the number in between. */
export class FailedRuns {
  readonly #deps: Pick<PersistDeps, "clock" | "log">;
  readonly #told = new Map<string, Told>();

  constructor(deps: Pick<PersistDeps, "clock" | "log">) {
    this.#deps = deps;
  }

  /** Notes that a run failed or timed out. */
  note({ type, id, reason }: FailedRun): void {
    const { clock, log } = this.#deps;
    const now = clock.monotonic();
    const told = this.#told.get(type);
    if (told !== undefined && now - told.at < EVERY_MS) {
      told.others++;
      return;
    }
    this.#told.set(type, { at: now, others: 0 });
    log.info({ type, id, reason, others_since: told?.others ?? 0 }, "a run failed");
  }
}
