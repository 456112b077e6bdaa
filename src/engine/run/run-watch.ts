import type { Store } from "../../store/store.ts";
import { persist, type PersistDeps } from "../persist.ts";

/** A run, by its task. */
export interface WatchedRun {
  readonly seq: number;
  readonly id: string;
}

export interface RunWatchDeps extends PersistDeps {
  readonly store: Pick<Store, "findEndedRuns">;
  /** What the daemon itself runs now. */
  readonly runs: () => readonly WatchedRun[];
  /** The task of this run was cancelled or erased, and not by this process. */
  readonly ended: (id: string) => void;
  /** The store can be read no more. */
  readonly failed: (error: unknown) => void;
}

/**
 * Notices tasks that another process cancelled or erased while this one runs them: of what this process ends itself
 * nothing runs any more when it is written. What has ended never runs again, so that an answer is never too old.
 */
export class RunWatch {
  readonly #deps: RunWatchDeps;
  #looking: Promise<void> | null = null;
  #stopping = false;

  constructor(deps: RunWatchDeps) {
    this.#deps = deps;
  }

  /** Looks after what runs now. To be called once a second. */
  tick(): void {
    if (this.#looking !== null || this.#stopping) return;
    const runs = this.#deps.runs();
    if (runs.length === 0) return;
    this.#looking = this.#look(runs)
      .catch(this.#deps.failed)
      .finally(() => {
        this.#looking = null;
      });
  }

  /** True when no look is under way. */
  isIdle(): boolean {
    return this.#looking === null;
  }

  /** Settles when no look is under way. */
  async quiet(): Promise<void> {
    await this.#looking;
  }

  /** Begins no look after this. */
  drain(): void {
    this.#stopping = true;
  }

  async #look(runs: readonly WatchedRun[]): Promise<void> {
    const { store, ended } = this.#deps;
    for (const id of await persist(() => store.findEndedRuns({ runs }), this.#deps)) ended(id);
  }
}
