import assert from "node:assert/strict";
import { test } from "node:test";

import { Loop } from "../../src/store/loop.ts";

/** A loop whose rounds the test ends, and its failures. */
function newLoop() {
  const rounds: PromiseWithResolvers<void>[] = [];
  const failures: unknown[] = [];
  const loop = new Loop({
    round: () => {
      const round = Promise.withResolvers<void>();
      rounds.push(round);
      return round.promise;
    },
    failed: (error) => failures.push(error),
  });
  return { loop, rounds, failures };
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

test("wakes during a round cause one more round", async () => {
  const { loop, rounds } = newLoop();
  assert.equal(loop.isIdle(), true);
  for (let i = 0; i < 3; i++) loop.wake();
  assert.deepEqual([rounds.length, loop.isIdle()], [1, false]);
  rounds[0]?.resolve();
  await turn();
  assert.deepEqual([rounds.length, loop.isIdle()], [2, false]);
  rounds[1]?.resolve();
  await turn();
  assert.deepEqual([rounds.length, loop.isIdle()], [2, true]);
});

test("a quiet loop has ended the current round and the next one", async () => {
  const { loop, rounds } = newLoop();
  loop.wake();
  loop.wake();
  let isQuiet = false;
  const quiet = loop.quiet().then(() => (isQuiet = true));
  rounds[0]?.resolve();
  await turn();
  assert.equal(isQuiet, false);
  rounds[1]?.resolve();
  await quiet;
  assert.equal(loop.isIdle(), true);
});

for (const word of ["drain", "abort"] as const) {
  test(`${word} lets the current round end and begins no other`, async () => {
    const { loop, rounds } = newLoop();
    loop.wake();
    loop.wake();
    loop[word]();
    loop[word]();
    assert.deepEqual([loop.isDraining, loop.isIdle()], [true, false]);
    rounds[0]?.resolve();
    await loop.quiet();
    loop.wake();
    assert.deepEqual([rounds.length, loop.isIdle()], [1, true]);
  });

  test(`${word} before the first wake prevents all rounds`, async () => {
    const { loop, rounds } = newLoop();
    loop[word]();
    loop.wake();
    await loop.quiet();
    assert.deepEqual([rounds.length, loop.isIdle()], [0, true]);
  });
}

test("the error of a round is passed on, and the next wake begins a round", async () => {
  const { loop, rounds, failures } = newLoop();
  loop.wake();
  rounds[0]?.reject(new TypeError("a bug"));
  await loop.quiet();
  assert.match(String(failures), /a bug/);
  loop.wake();
  rounds[1]?.resolve();
  await loop.quiet();
  assert.deepEqual([rounds.length, failures.length], [2, 1]);
});
