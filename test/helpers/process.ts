import { isRunning, readProcess } from "../../src/runners/command/process-table.ts";

/** True while a process of this number runs; one that has ended and waits for its parent to notice does not. */
export function isThere(pid: number): boolean {
  const entry = readProcess(pid);
  return entry !== null && isRunning(entry);
}
