import assert from "node:assert/strict";
import { test } from "node:test";

import { HeldLeases } from "../../src/run/leases.ts";

function lease(n: number) {
  return { id: `task-${n}`, leaseId: `lease-${n}`, type: "print" };
}

test("the oldest leases above the limit are forgotten, and a lease that is held again is the newest", () => {
  const held = new HeldLeases(3);
  for (const n of [1, 2, 3]) held.hold(lease(n));
  held.hold(lease(1));
  held.hold(lease(4));
  assert.deepEqual(
    [1, 2, 3, 4].map((n) => held.isHeld(lease(n))),
    [true, false, true, true],
  );
  assert.equal(held.countOf("print"), 3);
});

test("without a limit all leases are kept", () => {
  const held = new HeldLeases();
  for (let n = 0; n < 20_000; n++) held.hold(lease(n));
  assert.equal(held.countOf("print"), 20_000);
});
