import type { Config } from "../config/config.ts";
import type { WorkProgress } from "../domain/work-progress.ts";
import type { Store } from "../store/store.ts";
import type { Answer } from "./print.ts";
import { withProgress } from "./terminal.ts";

/** Helpers for commands that write in many small steps beside a daemon. */

const PAUSE_MS_MIN = 5;

/**
 * Does steps until one answers false, and shows how far they are. Between two of them it waits as long as the last one
 * took, so that a daemon that serves the same file has its turn.
 */
export async function bySteps(
  step: () => Promise<boolean>,
  progress: () => WorkProgress,
): Promise<void> {
  await withProgress(async (tell) => {
    for (;;) {
      const begunAt = performance.now();
      if (!(await step())) return;
      tell(progress());
      pause(Math.max(PAUSE_MS_MIN, performance.now() - begunAt));
    }
  });
}

// The process has nothing else to do, and timers of the clock would let it end.
function pause(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/**
 * Gives the space of erased data back to the file system, and leaves none of that data in the `-wal`. Tells so when
 * that could not be emptied, because somebody reads from it.
 */
export async function giveRoomBack(store: Store, config: Config): Promise<Answer> {
  let steps = 0;
  await bySteps(
    async () => (await store.reclaimSpace()) === "more",
    () => ({ part: "steps of giving the room back", done: ++steps, of: null }),
  );
  const { databaseOf } = await import("../daemon/store.ts");
  const isEmpty = databaseOf(config).clearWal();
  return { document: { wal_emptied: isEmpty }, lines: isEmpty ? [] : [WAL_HOLDS] };
}

const WAL_HOLDS =
  "The -wal beside the database still holds parts of it, because somebody reads from it: they go with later writes.";
