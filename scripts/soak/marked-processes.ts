import { readFileSync } from "node:fs";

import { listProcesses } from "../kit/processes.ts";
import { MARK } from "./setup.ts";

/**
 * The processes of this machine whose environment carries this mark: what the daemons of a soak have started, and what
 * that has started. Each is named by its number and its time of start, which nobody else will ever have.
 */
export function markedProcesses(mark: string): ReadonlySet<string> {
  const found = new Set<string>();
  for (const { pid, state, startTime } of listProcesses()) {
    const environment = readOrEmpty(`/proc/${pid}/environ`).split("\0");
    if (environment.includes(`${MARK}=${mark}`) && !"ZX".includes(state)) {
      found.add(`${pid} of ${startTime}`);
    }
  }
  return found;
}

/** Ends all that carry this mark. */
export function endMarked(mark: string): void {
  for (const each of markedProcesses(mark)) signalProcess(Number.parseInt(each), "SIGKILL");
}

/** Signals a process that may have ended by itself. */
export function signalProcess(pid: number, signal: "SIGSTOP" | "SIGKILL"): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has.
  }
}

// It ended meanwhile, or is somebody else's.
function readOrEmpty(file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch {
    return "";
  }
}
