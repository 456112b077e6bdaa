import { globSync, rmSync } from "node:fs";
import { join } from "node:path";

export const HOW_TO_GET_FAKE_TIME = "there is no libfaketime: run 'apt-get install faketime'";

/** The library of Debian's `faketime`, or null. */
export function findFakeTime(): string | null {
  return globSync("/usr/lib/*/faketime/libfaketimeMT.so.1")[0] ?? null;
}

// Only the wall clock: timers and durations stay correct.
const WALL_ALONE = { FAKETIME_DONT_FAKE_MONOTONIC: "1" };

/** The variables of a process whose clock is ahead by these seconds. */
export function clockAhead(seconds: number): Readonly<Record<string, string>> {
  return { ...WALL_ALONE, LD_PRELOAD: libraryPath(), FAKETIME: offsetText(seconds) };
}

/** Removes the shared memory of a killed process. */
export function forgetFakeTime(pid: number): void {
  for (const name of [`faketime_shm_${pid}`, `sem.faketime_sem_${pid}`]) {
    rmSync(join("/dev/shm", name), { force: true });
  }
}

function libraryPath(): string {
  const path = findFakeTime();
  if (path === null) throw new Error(HOW_TO_GET_FAKE_TIME);
  return path;
}

function offsetText(seconds: number): string {
  return seconds < 0 ? `${seconds}` : `+${seconds}`;
}
