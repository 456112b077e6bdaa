import { until } from "../../scripts/kit/until.ts";
import { isRunning, readProcess } from "../../src/run/processes.ts";

/** Returns whether a process runs. A zombie does not run. */
export function isThere(pid: number): boolean {
  const entry = readProcess(pid);
  return entry !== null && isRunning(entry);
}

const GONE_MS_MAX = 10_000;

/** Resolves when none of the processes exists, also not as a zombie. */
export async function untilGone(pids: readonly number[]): Promise<void> {
  const fault = (): string => `still there: ${pids.filter(isThere).join(", ")}`;
  await until(() => !pids.some(isThere), { msMax: GONE_MS_MAX, fault });
}
