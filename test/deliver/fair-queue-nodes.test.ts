import assert from "node:assert/strict";
import { test } from "node:test";

import { FairQueue } from "../../src/deliver/fair-queue.ts";
import type { SlotLimits } from "../../src/deliver/slots.ts";
import { Bench, NOW, ref, sum } from "./queue-bench.ts";

/** What each of these nodes has under way once all of them have filled their places at one host that answers. */
function fillNodes(limits: SlotLimits, members: readonly string[]): readonly number[] {
  return members.map((self) => {
    const bench = new Bench(limits);
    bench.respond("a");
    bench.queue.divide({ self, members });
    // Accounts enough to take everything: one leaves an eighth to others.
    for (let account = 1; account <= 40; account++) bench.due(`${account}/a`, { fresh: 9 });
    return sum(bench.fill());
  });
}

const byNumber = (a: number, b: number) => a - b;

const TRIO = ["x", "y", "z"];

test("nodes divide a host's slots, so that they never have more under way than one may", () => {
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

test("a host that takes one attempt at a time is sent to by one node, and the others leave it alone", () => {
  const filled = fillNodes({ inFlightMax: 600, inFlightPerHostMax: 1 }, TRIO);
  assert.deepEqual(filled.toSorted(byNumber), [0, 0, 1]);
});

test("what is due at a host of another node is not remembered, and so never keeps this node busy", () => {
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

test("a node that is alone again has all slots of a host, and what waits there gets them", () => {
  const bench = new Bench({ inFlightMax: 64, inFlightPerHostMax: 8 });
  bench.respond("a");
  bench.queue.divide({ self: "x", members: ["x", "y"] });
  bench.due("a", { fresh: 20 });
  assert.equal(sum(bench.fill()), 4);

  bench.queue.divide({ self: "x", members: ["x"] });

  assert.equal(sum(bench.fill()), 3);
  assert.equal(bench.queue.inFlight, 7);
});

test("attempts beyond a share that became smaller go on, and nothing follows until they are within it", () => {
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
