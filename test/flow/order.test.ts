import assert from "node:assert/strict";
import { test } from "node:test";

import { NOW, startOrdered } from "./run-order.ts";

function at(seconds: number): string {
  return new Date(NOW + seconds * 1000).toISOString();
}

test("delayed tasks that fall due together start by priority, then in the order posted", async (t) => {
  const { clock, daemon, order } = await startOrdered(t);
  await daemon.post([
    { tag: "a", start_at: at(9) },
    { tag: "b", start_at: at(3) },
    { tag: "c", start_at: at(10), priority: 5 },
    { tag: "d", start_at: at(10) },
    { tag: "e", start_at: at(1), priority: 9 },
    { tag: "f", start_at: at(11), priority: 9 },
  ]);
  await daemon.post({ tag: "g", start_at: at(2), priority: 5 });
  clock.jump(10_000);
  await daemon.daemon.idle();
  assert.equal(order(), "ecgabd");
  clock.advance(1000);
  await daemon.daemon.idle();
  assert.equal(order(), "ecgabdf");
});

test("tasks start at their time one after the other, and a start in the past is now", async (t) => {
  const { clock, daemon, order } = await startOrdered(t);
  await daemon.post([
    { tag: "c", start_at: at(2), priority: 9 },
    { tag: "b", start_at: at(1) },
    { tag: "a", start_at: at(-1) },
    { tag: "0", start_at: at(0), priority: 1 },
  ]);
  await daemon.daemon.idle();
  assert.equal(order(), "0a");
  for (const expected of ["0ab", "0abc"]) {
    clock.advance(1000);
    await daemon.daemon.idle();
    assert.equal(order(), expected);
  }
});
