import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";

import { childrenOf } from "../../scripts/kit/processes.ts";
import { Random } from "../../scripts/kit/random.ts";
import { judgeFlat, type Sample } from "../../scripts/soak/report.ts";
import { MARK, markedProcesses } from "../../scripts/soak/services.ts";

const STEP_MS = 5000;

/** A life of so many minutes, sampled as a soak does. */
function life(minutes: number, sample: (minute: number) => Partial<Sample>): readonly Sample[] {
  return Array.from({ length: (minutes * 60_000) / STEP_MS }, (_, i) => {
    const atMs = i * STEP_MS;
    return { atMs, rssBytes: 200e6, descriptors: 40, ...sample(atMs / 60_000) };
  });
}

test("memory and descriptors that go up and down are flat", () => {
  const faults = judgeFlat(
    life(15, (minute) => ({
      rssBytes: 200e6 + 40e6 * Math.sin(minute * 9),
      descriptors: 40 + Math.round(10 * Math.sin(minute * 9)),
    })),
  );

  assert.deepEqual(faults, []);
});

test("memory that rises at the beginning alone is flat", () => {
  const rssBytes = (minute: number): number => 300e6 - 150e6 * Math.exp(-minute);
  assert.deepEqual(judgeFlat(life(15, (minute) => ({ rssBytes: rssBytes(minute) }))), []);
});

test("memory and descriptors that go on rising are found", () => {
  const leak = life(15, (minute) => ({ rssBytes: 200e6 + 8e6 * minute }));
  const open = life(15, (minute) => ({ descriptors: 40 + Math.round(4 * minute) }));

  assert.match(judgeFlat(leak).join(), /^memory grew by \d+ MB$/);
  assert.match(judgeFlat(open).join(), /^\d+ more descriptors are open$/);
});

test("of a life of a minute nothing is said", () => {
  assert.deepEqual(judgeFlat(life(1, (minute) => ({ rssBytes: 200e6 + 900e6 * minute }))), []);
});

test("a process is found by its mark as long as it runs, its children too", async (t) => {
  const mark = `test-${process.pid}`;
  // sh is the parent of the process that it waits for.
  const child = spawn("sh", ["-c", "sleep 600 & echo; wait"], {
    env: { ...process.env, [MARK]: mark },
    stdio: ["ignore", "pipe", "ignore"],
    detached: true,
  });
  const kill = (): void => {
    if (child.pid !== undefined && child.signalCode === null) process.kill(-child.pid, "SIGKILL");
  };
  t.after(kill);
  await once(child.stdout, "data");

  assert.equal(markedProcesses(mark).size, 2);
  assert(childrenOf(process.pid).some(({ pid }) => pid === child.pid));
  assert.equal(markedProcesses(`${mark}0`).size, 0);
  const ended = once(child, "close");
  kill();
  await ended;
  assert.equal(markedProcesses(mark).size, 0);
});

test("the same seed draws the same, another seed does not", () => {
  const draw = (seed: number): readonly number[] => {
    const random = new Random(seed);
    return Array.from({ length: 20 }, () => random.between(1, 1000));
  };

  assert.deepEqual(draw(7), draw(7));
  assert.notDeepEqual(draw(7), draw(8));
  assert(draw(7).every((value) => value >= 1 && value <= 1000));
});
