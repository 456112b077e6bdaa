import { readFileSync } from "node:fs";

import type { DaemonProcess } from "../kit/daemon-process.ts";
import { childrenOf, listProcesses } from "../kit/processes.ts";
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

/**
 * kill -9 for the daemon and for what it has started, before that can end what it has started in turn: commands are
 * left behind, and the next daemon has to find them.
 */
export async function killWithChildren(daemon: DaemonProcess): Promise<void> {
  const children = childrenOf(daemon.pid).map(({ pid }) => pid);
  for (const pid of children) signalProcess(pid, "SIGSTOP");
  await daemon.kill();
  for (const pid of children) signalProcess(pid, "SIGKILL");
}

function signalProcess(pid: number, signal: "SIGSTOP" | "SIGKILL"): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended by itself.
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
