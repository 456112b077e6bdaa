import assert from "node:assert/strict";
import { test } from "node:test";

import { openClock } from "../../src/daemon/clock.ts";
import { StoreError, type StoreErrorKind } from "../../src/store/store.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { newReading, T0 } from "../helpers/store.ts";

const QUIET = { debug() {}, info() {}, warn() {}, error() {} };

interface Unable {
  readonly kind: StoreErrorKind;
  /** By how much the wall clock was set since the reading. */
  readonly stepMs: number;
  /** For how long the store cannot write; for ever unless given. */
  readonly ms?: number;
}

/** Opens the clock an hour after a reading, on a store that cannot write. */
async function openUnable({ kind, stepMs, ms = Infinity }: Unable) {
  const machine = createFakeClock({ now: T0 });
  const last = newReading({ uptimeMs: 0, bootId: machine.bootId(), steadyAt: T0 + 5000 });
  machine.jump(3_600_000);
  machine.step(stepMs);
  const ableAt = machine.monotonic() + ms;
  const moved: number[] = [];
  const store = {
    findClockReading: async () => last,
    async resumeClock({ stepMs: by }: { readonly stepMs: number }) {
      if (machine.monotonic() < ableAt) throw new StoreError(kind, "no room");
      return moved.push(by);
    },
  };
  let isOpen = false;
  const opened = openClock({ machine, store, log: QUIET }).finally(() => (isOpen = true));
  // Every timer fires.
  while (!isOpen) {
    await Promise.race([opened, machine.whenPending(1)]).catch(() => {});
    machine.advance(machine.pending()[0] ?? 0);
  }
  return { clock: await opened, machine, moved };
}

for (const kind of ["full", "busy", "unreachable"] as const) {
  test(`a daemon starts on a store that is ${kind}, and its service clock goes on`, async () => {
    const { clock, machine } = await openUnable({ kind, stepMs: 0 });

    assert.equal(clock.steady(), T0 + 5000 + machine.monotonic());
  });

  test(`a daemon does not start on a store that is ${kind} after the clock was set`, async () => {
    await assert.rejects(openUnable({ kind, stepMs: -86_400_000 }), { kind });
  });
}

test("the start waits for a store that another process locks", async () => {
  const { moved } = await openUnable({ kind: "busy", stepMs: -86_400_000, ms: 12_000 });

  assert.deepEqual(moved, [-86_400_000]);
});

test("a daemon does not start on a failed store", async () => {
  for (const kind of ["failed", "unknown", "closed"] as const) {
    await assert.rejects(openUnable({ kind, stepMs: 0 }), { kind });
  }
});
