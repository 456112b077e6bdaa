import { until } from "../../scripts/kit/until.ts";
import { isRunning, readProcess } from "../../src/run/processes.ts";

/** True while a process of this number runs; one that has ended and waits for its parent to notice does not. */
export function isThere(pid: number): boolean {
  const entry = readProcess(pid);
  return entry !== null && isRunning(entry);
}

const GONE_MS_MAX = 10_000;

/** Settles when none of them is there. A process that has ended is, until its parent, or who took it over, has heard so. */
export async function untilGone(pids: readonly number[]): Promise<void> {
  const fault = (): string => `still there: ${pids.filter(isThere).join(", ")}`;
  await until(() => !pids.some(isThere), { msMax: GONE_MS_MAX, fault });
}
