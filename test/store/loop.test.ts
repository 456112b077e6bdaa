import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";

import type { Logger } from "../../src/domain/log.ts";
import { Loop } from "../../src/store/loop.ts";
import { WaitingSteps, keepTrying } from "../../src/store/retry.ts";
import { StoreError } from "../../src/store/store.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

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

const log: Logger = { debug() {}, info() {}, warn() {}, error() {} };

function newParts() {
  const stop = new AbortController();
  return { stop, clock: createFakeClock({ now: 1000 }), giveUp: stop.signal };
}

test("a step that a full store rejects is repeated each second until it succeeds", async () => {
  const { clock, giveUp } = newParts();
  let tries = 0;
  const done = keepTrying(
    async () => {
      if (++tries < 3) throw new StoreError("full", "no space");
      return "kept";
    },
    { clock, log, giveUp },
  );
  for (let i = 0; i < 2; i++) {
    await clock.whenPending(1);
    clock.advance(1000);
  }

  assert.equal(await done, "kept");
  assert.equal(tries, 3);
});

test("a waiting step rejects when the process ends", async () => {
  const { stop, clock, giveUp } = newParts();
  const step = () => Promise.reject(new StoreError("busy", "locked"));
  const done = keepTrying(step, { clock, log, giveUp });
  await clock.whenPending(1);
  stop.abort();
  await assert.rejects(done, (error) => error instanceof StoreError && error.kind === "closed");
  assert.deepEqual(clock.pending(), []);
});

for (const kind of ["unknown", "failed"] as const) {
  test(`a step that fails as ${kind} is not repeated`, async () => {
    const { clock, giveUp } = newParts();
    let tries = 0;
    const step = (): Promise<never> => {
      tries++;
      return Promise.reject(new StoreError(kind, "the reply was lost"));
    };
    await assert.rejects(keepTrying(step, { clock, log, giveUp }), { kind });
    assert.equal(tries, 1);
  });
}

test("waiting steps log one line when they begin, one a minute, and one when they end", async () => {
  const { stop, clock, giveUp } = newParts();
  const lines: object[] = [];
  const note = (facts: object): void => void lines.push(facts);
  const noting = { ...log, info: note, warn: note };
  const waitingSteps = new WaitingSteps({ clock, log: noting });
  let isFull = true;
  const step = async (): Promise<void> => {
    if (isFull) throw new StoreError("full", "no room");
  };
  const begin = (): Promise<void> => keepTrying(step, { clock, log: noting, giveUp, waitingSteps });
  const pass = async (seconds: number): Promise<void> => {
    for (let i = 0; i < seconds; i++) {
      await clock.whenPending(100);
      clock.advance(1000);
    }
  };

  const all = Array.from({ length: 100 }, begin);
  await pass(150);
  isFull = false;
  await pass(1);
  await Promise.all(all);

  const waiting = { kind: "full", waiting: 100 };
  assert.deepEqual(lines, [{ ...waiting, waiting: 1 }, waiting, waiting, {}]);

  // Full again within the minute: no line.
  lines.length = 0;
  isFull = true;
  const more = Array.from({ length: 100 }, begin);
  await pass(2);
  stop.abort();
  await Promise.allSettled(more);
  assert.deepEqual(lines, []);
});
