import assert from "node:assert/strict";
import { test } from "node:test";

import { parseTrace, timelineOf } from "../../scripts/timeline/thread-states.ts";

const MAIN = 100;
const WRITER = 200;
const OTHER = 300;

type Line = readonly [at: string, core: number, by: number, rest: string];

function lineOf([at, core, by, rest]: Line): string {
  return `     Worker Thread-${by}   [00${core}] dNs4. ${at}: ${rest}`;
}

const left = (from: number, state: string, to: number): string =>
  `sched_switch: prev_comm=a b prev_pid=${from} prev_prio=120 prev_state=${state} ==> next_comm=c d next_pid=${to} next_prio=120`;
const woken = (thread: number, core: number): string =>
  `sched_wakeup: comm=e f pid=${thread} prio=120 target_cpu=00${core}`;

/** The parts of the time, in hundredths. */
function timeline(...lines: readonly Line[]) {
  const events = parseTrace(["# tracer: nop", "#", ...lines.map(lineOf), ""].join("\n"));
  const found = timelineOf(events, { threads: [MAIN, WRITER], cores: 2 });
  const hundredths = (part: number): number => Math.round(100 * part);
  return {
    seconds: found.seconds,
    coresBusy: found.coresBusy.map(hundredths),
    running: Object.fromEntries([...found.running].map(([key, part]) => [key, hundredths(part)])),
    together: Object.fromEntries([...found.together].map(([key, part]) => [key, hundredths(part)])),
  };
}

test("threads run, wait for a core, for the disk, or sleep, and cores are busy with whoever it is", () => {
  const found = timeline(
    ["10.000000", 0, MAIN, woken(WRITER, 1)],
    ["10.200000", 1, WRITER, left(WRITER, "D", 0)],
    ["10.500000", 0, MAIN, left(MAIN, "R+", OTHER)],
    ["10.600000", 0, OTHER, left(OTHER, "S", MAIN)],
    ["10.800000", 0, MAIN, left(MAIN, "S", 0)],
    ["11.000000", 0, 0, woken(OTHER, 0)],
  );

  assert.deepEqual(found, {
    seconds: 1,
    coresBusy: [20, 60, 20],
    running: { [MAIN]: 70, [WRITER]: 20, [OTHER]: 10 },
    together: { "runs/runs": 20, "runs/disk": 50, "core/disk": 10, "sleeps/disk": 20 },
  });
});

test("who is woken on a core that somebody has waits for it, and who does something runs although no switch told it", () => {
  const found = timeline(
    ["5.000000", 0, MAIN, woken(WRITER, 0)],
    ["5.250000", 1, WRITER, woken(OTHER, 1)],
    ["5.500000", 1, WRITER, left(WRITER, "S", OTHER)],
    ["6.000000", 1, OTHER, left(OTHER, "S", 0)],
  );

  assert.deepEqual(found.together, { "runs/core": 25, "runs/runs": 25, "runs/sleeps": 50 });
  assert.deepEqual(found.running, { [MAIN]: 100, [WRITER]: 25, [OTHER]: 50 });
  assert.deepEqual(found.coresBusy, [0, 25, 75]);
});
