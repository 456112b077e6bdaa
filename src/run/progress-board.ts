import { Loop, type LoopDeps } from "../deliver/loop.ts";
import { type TaskProgress } from "../domain/task/run.ts";
import { StoreError, type ReportedProgress, type Store } from "../store/store.ts";

interface ProgressBoardDeps extends Pick<LoopDeps, "failed"> {
  readonly store: Pick<Store, "cluster" | "noteProgress" | "findProgress">;
  /** The number of the run of a task that this node runs itself, now; null for any other. */
  readonly runOf: (id: string) => number | null;
  /** The lease of a task that a worker holds, as far as it is known here; null for any other. */
  readonly leaseOf: (id: string) => string | null;
}

/**
 * The progress of running tasks, as it was reported here. Where nodes share the store it is told to the others, once a
 * second at most, and what is reported elsewhere is found; a worker may report to one node now and to another then, so
 * only what this node runs itself is kept here for longer.
 */
export class ProgressBoard {
  /** By the task's id. */
  readonly known = new Map<string, TaskProgress>();
  /** Tells the other nodes what is new. To be woken once a second. */
  readonly tell: Loop;
  readonly #deps: ProgressBoardDeps;
  /** The progress that was told of this node's own runs. */
  readonly #told = new Map<string, TaskProgress>();

  constructor(deps: ProgressBoardDeps) {
    this.#deps = deps;
    this.tell = new Loop({ round: () => this.#tell(), failed: deps.failed });
  }

  /** The progress that was reported here; null when nothing was. */
  of(id: string): TaskProgress | null {
    return this.known.get(id) ?? null;
  }

  /** Answers what tells the progress of these tasks, wherever it was reported. */
  async find(ids: readonly string[]): Promise<(id: string) => TaskProgress | null> {
    const { store } = this.#deps;
    const elsewhere = store.cluster.isShared ? ids.filter((id) => !this.#isOwn(id)) : [];
    if (elsewhere.length === 0) return (id) => this.of(id);
    const runs = await store.findProgress({ ids: elsewhere });
    const found = new Map(runs.map(({ id, progress }) => [id, progress]));
    // A report of this second is newer than what the store has.
    return (id) => this.known.get(id) ?? found.get(id) ?? null;
  }

  async #tell(): Promise<void> {
    const { store } = this.#deps;
    if (!store.cluster.isShared) return;
    if (!store.cluster.isMember()) {
      // By the time that this node has joined again, another lease may have taken the place of this one.
      for (const id of this.known.keys()) if (!this.#isOwn(id)) this.known.delete(id);
      return;
    }
    for (const id of this.#told.keys()) if (!this.known.has(id)) this.#told.delete(id);
    const news = [...this.known].filter(([id, progress]) => this.#told.get(id) !== progress);
    if (news.length === 0) return;
    try {
      await store.noteProgress(
        news.flatMap(([id, progress]) => {
          const by = this.#reporterOf(id);
          return by === null ? [] : { id, progress, by };
        }),
      );
    } catch (error) {
      // Not worth waiting for: the next second brings it, or something newer.
      if (error instanceof StoreError) return;
      throw error;
    }
    for (const [id, progress] of news) {
      if (this.#isOwn(id)) this.#told.set(id, progress);
      else if (this.known.get(id) === progress) this.known.delete(id);
    }
  }

  #isOwn(id: string): boolean {
    return this.#deps.runOf(id) !== null;
  }

  // Progress that is told late must not be taken for the progress of whoever runs the task by then.
  #reporterOf(id: string): ReportedProgress["by"] | null {
    const run = this.#deps.runOf(id);
    if (run !== null) return { run };
    const leaseId = this.#deps.leaseOf(id);
    return leaseId === null ? null : { leaseId };
  }
}
