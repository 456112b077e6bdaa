import assert from "node:assert/strict";
import { test } from "node:test";

import { LookUpTurns } from "../../src/deliver/resolver.ts";

const never = new AbortController().signal;

/** Turns, with the look-ups that began, by account, and the function that ends each. */
function setUp() {
  const turns = new LookUpTurns();
  const begun: { readonly accountId: number; readonly end: () => void }[] = [];
  const given: number[] = [];
  const ask = (accountId: number, count: number, signal = never): void => {
    for (let i = 0; i < count; i++) {
      void turns.take(accountId, signal).then((end) => {
        if (end === null) given.push(accountId);
        else begun.push({ accountId, end });
      });
    }
  };
  const begunOf = (accountId: number): number =>
    begun.filter((each) => each.accountId === accountId).length;
  return { begun, given, ask, begunOf };
}

// Look-ups begin in microtasks.
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

test("128 look-ups are in progress, and the account with the fewest begins the next", async () => {
  const { ask, begun, begunOf } = setUp();
  for (let accountId = 1; accountId <= 200; accountId++) ask(accountId, 2);
  await turn();
  assert.equal(begun.length, 128);
  assert.equal(begunOf(200), 0);

  begun.find(({ accountId }) => accountId === 1)?.end();
  await turn();

  assert.equal(begun.length, 129);
  assert.ok(begun[128] !== undefined && begun[128].accountId > 1);
  assert.equal(begunOf(begun[128].accountId), 1);
});

test("each look-up of an account that ends lets one begin", async () => {
  const { ask, begun, begunOf } = setUp();
  ask(1, 200);
  await turn();

  for (const { end } of begun.slice(0, 50)) end();
  await turn();

  assert.equal(begunOf(1), 146);
  for (const { end } of begun.slice(50)) end();
  await turn();
  assert.equal(begunOf(1), 200);
});

test("an aborted look-up leaves its turn to the next", async () => {
  const { ask, begun, given, begunOf } = setUp();
  ask(1, 96);
  const stop = new AbortController();
  ask(1, 3, stop.signal);
  ask(1, 1);
  await turn();
  assert.equal(begunOf(1), 96);

  stop.abort();
  await turn();
  assert.equal(given.length, 3);
  begun[0]?.end();
  await turn();

  assert.equal(begunOf(1), 97);
  ask(1, 1, stop.signal);
  await turn();
  assert.equal(given.length, 4);
});
