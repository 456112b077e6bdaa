import assert from "node:assert/strict";
import { globSync, rmSync } from "node:fs";
import { join } from "node:path";

import { reasonToSkipPostgres } from "./postgres.ts";

const HOW_TO_GET_FAKE_TIME = "there is no libfaketime: run 'apt-get install faketime'";

/** The library of Debian's `faketime`. */
function findFakeTime(): string | undefined {
  return globSync("/usr/lib/*/faketime/libfaketimeMT.so.1")[0];
}

/** The reason to skip tests with a wrong clock, or false. */
export function reasonToSkipFakeTime(): string | false {
  if (findFakeTime() !== undefined) return reasonToSkipPostgres();
  assert.notEqual(process.env["POSTBACKD_TEST_PEERS"], "required", HOW_TO_GET_FAKE_TIME);
  return HOW_TO_GET_FAKE_TIME;
}

/** The variables of a process whose wall clock is ahead by these seconds: timers and durations stay correct. */
export function clockAhead(seconds: number): Readonly<Record<string, string>> {
  return {
    FAKETIME_DONT_FAKE_MONOTONIC: "1",
    LD_PRELOAD: findFakeTime() ?? assert.fail(HOW_TO_GET_FAKE_TIME),
    FAKETIME: seconds < 0 ? `${seconds}` : `+${seconds}`,
  };
}

/** Removes the shared memory of a killed process. */
export function forgetFakeTime(pid: number): void {
  for (const name of [`faketime_shm_${pid}`, `sem.faketime_sem_${pid}`]) {
    rmSync(join("/dev/shm", name), { force: true });
  }
}
