import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import {
  CLAIM_INPUT_MAX,
  inTurn,
  isClaimFull,
  newTurn,
  shareOf,
  type Turn,
} from "../../src/domain/task/claim-turn.ts";

test("the remaining claims are shared evenly, at least one for each account", () => {
  const cases = [
    [64, 1, 64],
    [64, 2, 32],
    [64, 5, 12],
    [4, 5, 1],
    [1, 1000, 1],
  ] as const;
  for (const [left, accounts, share] of cases) assert.equal(shareOf(left, accounts), share);
});

test("claimed tasks alternate between the accounts", () => {
  const rowsOf: readonly (readonly string[])[] = [["a1", "a2", "a3"], [], ["c1"], ["d1", "d2"]];
  const turns = rowsOf.map((rows, i) => ({ ...newTurn<string>(i + 1), rows: [...rows] }));

  assert.deepEqual(inTurn(turns), ["a1", "c1", "d1", "a2", "d2", "a3"]);
  assert.deepEqual(inTurn([]), []);
});

test("a claim is full at the input limit", () => {
  assert.equal(isClaimFull({ inputLength: CLAIM_INPUT_MAX - 1 }), false);
  assert.equal(isClaimFull({ inputLength: CLAIM_INPUT_MAX }), true);
});

test("a claim takes all that fits, and no account gets two more than an account with waiting tasks", () => {
  const queues = fc.array(fc.nat(40), { minLength: 1, maxLength: 12 });
  fc.assert(
    fc.property(queues, fc.integer({ min: 1, max: 64 }), (waiting, max) => {
      const given = claim(waiting, max);
      const all = given.reduce((sum, count) => sum + count, 0);
      assert.equal(all, Math.min(max, sumOf(waiting)));
      for (const [i, count] of given.entries()) {
        if (count === waiting[i]) continue;
        for (const other of given)
          assert(other <= count + 1, `${waiting.join()} by ${max}: ${given.join()}`);
      }
    }),
  );
});

/** Claims as a store does. Returns the tasks claimed from each queue. */
function claim(waiting: readonly number[], max: number): readonly number[] {
  const turns = waiting.map((_, i) => newTurn<number>(i));
  let [left, open]: [number, Turn<number>[]] = [max, turns];
  while (left > 0 && open.length > 0) {
    const share = shareOf(left, open.length);
    for (const turn of open) {
      if (left === 0) break;
      const had = turn.rows.length;
      const count = Math.min(share, left, (waiting[turn.accountId] ?? 0) - had);
      for (let n = 0; n < count; n++) turn.rows.push(n);
      turn.mayHaveMore = count === share;
      left -= count;
    }
    open = open.filter(({ mayHaveMore }) => mayHaveMore);
  }
  return turns.map(({ rows }) => rows.length);
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}
