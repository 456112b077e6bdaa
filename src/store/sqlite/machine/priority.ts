import { constants, setPriority } from "node:os";
import { isMainThread } from "node:worker_threads";

/**
 * Lets all others use the processor first, for good. For a process, or a thread of one, that does nothing else: on Linux
 * each thread has a priority of its own; elsewhere a thread keeps that of its process, which others need.
 */
export function giveWay(): void {
  if (!isMainThread && process.platform !== "linux") return;
  try {
    setPriority(constants.priority.PRIORITY_BELOW_NORMAL);
  } catch {
    // A sandbox may forbid it, as systemd's `SystemCallFilter=~@resources` does. The work has to be done all the same.
  }
}
