import assert from "node:assert/strict";
import { test } from "node:test";

import { Loop } from "../../src/store/loop.ts";

/** A loop whose rounds end when they are told to, and what it did. */
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

test("a loop that is woken during a round does one more after it, however often it was woken", async () => {
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

test("who waits until a loop is quiet waits for the round that follows the one under way, too", async () => {
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
  test(`a loop that was told to ${word} lets its round end and begins no other`, async () => {
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

  test(`a loop that was told to ${word} before it was ever woken does nothing`, async () => {
    const { loop, rounds } = newLoop();
    loop[word]();
    loop.wake();
    await loop.quiet();
    assert.deepEqual([rounds.length, loop.isIdle()], [0, true]);
  });
}

test("what a round fails by is handed on, and the next wake begins another one", async () => {
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
