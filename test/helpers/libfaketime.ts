import { chmodSync, globSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** What to say where {@link findFakeTime} finds none. */
export const HOW_TO_GET_FAKE_TIME = "there is no libfaketime: run 'apt-get install faketime'";

/** The library of Debian's `faketime`, which tells a process another time of day; null where there is none. */
export function findFakeTime(): string | null {
  return globSync("/usr/lib/*/faketime/libfaketimeMT.so.1")[0] ?? null;
}

// Only what is set on a wall: timers, and times between two moments, are right.
const WALL_ALONE = { FAKETIME_DONT_FAKE_MONOTONIC: "1" };
// A clock that is set is looked at again after a second: to read a file at each look would be slow.
const LOOK_SECONDS = "1";

/** The variables of a process whose clock is ahead by so many seconds, or behind. */
export function clockAhead(seconds: number): Readonly<Record<string, string>> {
  return { ...WALL_ALONE, LD_PRELOAD: libraryPath(), FAKETIME: offsetText(seconds) };
}

/** A clock that can be set while processes go by it: they see it a second later at the most. */
export class SettableClock {
  readonly #folder = mkdtempSync(join(tmpdir(), "postbackd-clock-"));
  readonly #file = join(this.#folder, "offset");

  constructor() {
    // A server of PostgreSQL runs as another user.
    chmodSync(this.#folder, 0o755);
    this.setAhead(0);
  }

  /** Of the processes that go by it. */
  get env(): Readonly<Record<string, string>> {
    const how = { FAKETIME_TIMESTAMP_FILE: this.#file, FAKETIME_CACHE_DURATION: LOOK_SECONDS };
    return { ...WALL_ALONE, LD_PRELOAD: libraryPath(), ...how };
  }

  setAhead(seconds: number): void {
    writeFileSync(this.#file, `${offsetText(seconds)}\n`, { mode: 0o644 });
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
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
