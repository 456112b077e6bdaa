import assert from "node:assert/strict";
import { test } from "node:test";

import { openClock } from "../src/daemon/clock.ts";
import { StoreError, type StoreErrorKind } from "../src/store/store.ts";
import { createFakeClock } from "./helpers/fake-clock.ts";
import { newReading, T0 } from "./helpers/store.ts";

const QUIET = { debug() {}, info() {}, warn() {}, error() {} };

/**
 * Opens the clock an hour after a reading, on a store that cannot write; the wall clock was set by `stepMs` meanwhile.
 */
async function openUnable(kind: StoreErrorKind, stepMs: number) {
  const machine = createFakeClock({ now: T0 });
  const last = newReading({ uptimeMs: 0, bootId: machine.bootId(), steadyAt: T0 + 5000 });
  machine.jump(3_600_000);
  machine.step(stepMs);
  const store = {
    findClockReading: async () => last,
    resumeClock: async () => Promise.reject(new StoreError(kind, "no room")),
  };
  return openClock({ machine, store, log: QUIET });
}

for (const kind of ["full", "busy", "unreachable"] as const) {
  test(`a store that is ${kind} keeps no daemon from starting, whose time goes on all the same`, async () => {
    const clock = await openUnable(kind, 0);

    assert.equal(clock.steady(), T0 + 5000 + 3_600_000);
  });

  test(`but nothing starts before what waits has moved with a clock that was set (${kind})`, async () => {
    await assert.rejects(openUnable(kind, -86_400_000), { kind });
  });
}

test("a store that has failed keeps the daemon from starting", async () => {
  for (const kind of ["failed", "unknown", "closed"] as const) {
    await assert.rejects(openUnable(kind, 0), { kind });
  }
});
