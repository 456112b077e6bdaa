import assert from "node:assert/strict";
import { test } from "node:test";

import { FairQueue } from "../../src/deliver/fair-queue.ts";
import type { SlotLimits } from "../../src/deliver/slots.ts";
import { Bench, NOW, ref, sum } from "./queue-bench.ts";

/** The attempts in flight of each node once all nodes have filled their slots at a healthy host. */
function fillNodes(limits: SlotLimits, members: readonly string[]): readonly number[] {
  return members.map((self) => {
    const bench = new Bench(limits);
    bench.respond("a");
    bench.queue.divide({ self, members });
    // 40 accounts use all slots: one account leaves an eighth to others.
    for (let account = 1; account <= 40; account++) bench.due(`${account}/a`, { fresh: 9 });
    return sum(bench.fill());
  });
}

const byNumber = (a: number, b: number) => a - b;

const TRIO = ["x", "y", "z"];

test("nodes divide the slots of a host", () => {
  const filled = fillNodes({ inFlightMax: 600, inFlightPerHostMax: 32 }, TRIO);
  assert.equal(
    filled.reduce((total, count) => total + count, 0),
    32,
  );
  assert(
    filled.every((count) => count >= 10),
    filled.join(),
  );
});

test("a node keeps no lane of a host that another node sends to", () => {
  const limits = { inFlightMax: 64, inFlightPerHostMax: 1 };
  const owners = TRIO.map((self) => {
    const queue = new FairQueue(limits);
    queue.noteDue(ref("a"), "fresh", NOW);
    queue.divide({ self, members: TRIO });
    queue.noteDue(ref("a"), "retries", NOW);
    assert.equal(queue.isIdle(NOW), queue.gauge.lanes === 0);
    return queue.gauge.lanes;
  });
  assert.deepEqual(owners.toSorted(byNumber), [0, 0, 1]);
});

test("attempts beyond a reduced share end first, before the next attempt starts", () => {
  const bench = new Bench({ inFlightMax: 64, inFlightPerHostMax: 8 });
  bench.respond("a");
  bench.due("a", { fresh: 20 });
  assert.equal(sum(bench.fill()), 7);

  bench.queue.divide({ self: "x", members: ["x", "y"] });

  assert.equal(bench.queue.inFlight, 7);
  for (let ended = 0; ended < 3; ended++) {
    bench.end("a", { pace: "quick" });
    assert.equal(sum(bench.fill()), 0);
  }
  bench.end("a", { pace: "quick" });
  bench.end("a", { pace: "quick" });
  assert.equal(sum(bench.fill()), 2);
  assert.equal(bench.queue.inFlight, 4);
});
