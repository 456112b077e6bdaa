import assert from "node:assert/strict";
import { test } from "node:test";

import { mayStart } from "../../src/domain/webhook/delivery.ts";

const MIB = 1024 * 1024;

/** A claim that has started attempts of accounts, of so many MiB each. */
function claimed(...attempts: readonly (readonly [accountId: number, mib: number])[]) {
  const bytesOf = new Map<number, number>();
  for (const [accountId, mib] of attempts) {
    bytesOf.set(accountId, (bytesOf.get(accountId) ?? 0) + mib * MIB);
  }
  return { bytes: sumOf(attempts.map(([, mib]) => mib * MIB)), bytesOf, started: attempts };
}

const CASES = [
  ["the first, however large", claimed(), 1, 100, true],
  ["up to the claim's 32 MiB", claimed([1, 8], [2, 8], [3, 8]), 4, 8, true],
  ["and not beyond them", claimed([1, 8], [2, 8], [3, 8]), 4, 8.1, false],
  ["another account's first beside a large one", claimed([1, 20]), 2, 12, true],
  ["up to an account's 8 MiB", claimed([1, 4]), 1, 4, true],
  ["and not beyond them", claimed([1, 4]), 1, 4.1, false],
  [
    "no second one of an account whose first was larger than its part",
    claimed([1, 20]),
    1,
    1,
    false,
  ],
  ["what has no bytes of its own", claimed([1, 8]), 1, 0, true],
] as const;

for (const [what, claim, accountId, mib, may] of CASES) {
  test(`a claim of attempts takes ${what}: ${may}`, () => {
    assert.equal(mayStart(claim, { accountId, bytes: mib * MIB }), may);
  });
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}
