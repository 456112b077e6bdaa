import type { RunRef } from "./lease.ts";

export interface HoldStore {
  /** Puts a running task back into the queue as if it had not been started. Does nothing to one that is not running. */
  releaseTask(which: RunRef): Promise<void>;
}
