import { globSync, rmSync } from "node:fs";
import { join } from "node:path";

/** What to say where {@link findFakeTime} finds none. */
export const HOW_TO_GET_FAKE_TIME = "there is no libfaketime: run 'apt-get install faketime'";

/** The library of Debian's `faketime`, which tells a process another time of day; null where there is none. */
export function findFakeTime(): string | null {
  return globSync("/usr/lib/*/faketime/libfaketimeMT.so.1")[0] ?? null;
}

// Only what is set on a wall: timers, and times between two moments, are right.
const WALL_ALONE = { FAKETIME_DONT_FAKE_MONOTONIC: "1" };

/** The variables of a process whose clock is ahead by so many seconds, or behind. */
export function clockAhead(seconds: number): Readonly<Record<string, string>> {
  return { ...WALL_ALONE, LD_PRELOAD: libraryPath(), FAKETIME: offsetText(seconds) };
}

/** Removes what the library has left in memory of a process that was killed. */
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
