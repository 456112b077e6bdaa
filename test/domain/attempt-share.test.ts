import assert from "node:assert/strict";
import { test } from "node:test";

import { StartedAttempts } from "../../src/domain/webhook/delivery.ts";

const MIB = 1024 * 1024;

const CASES = [
  ["the first, however large", [], 1, 100, true],
  [
    "up to the claim's 32 MiB",
    [
      [1, 8],
      [2, 8],
      [3, 8],
    ],
    4,
    8,
    true,
  ],
  [
    "and not beyond them",
    [
      [1, 8],
      [2, 8],
      [3, 8],
    ],
    4,
    8.1,
    false,
  ],
  ["another account's first beside a large one", [[1, 20]], 2, 12, true],
  ["up to an account's 8 MiB", [[1, 4]], 1, 4, true],
  ["and not beyond them", [[1, 4]], 1, 4.1, false],
  ["no second one of an account whose first was larger than its part", [[1, 20]], 1, 1, false],
  ["what has no bytes of its own", [[1, 8]], 1, 0, true],
] as const;

for (const [what, before, accountId, mib, may] of CASES) {
  test(`a claim of attempts takes ${what}: ${may}`, () => {
    const claim = new StartedAttempts();
    const start = (account: number, mibs: number) =>
      claim.start({ seq: 1, accountId: account, bytes: mibs * MIB });
    for (const [account, mibs] of before) assert.equal(start(account, mibs), true);

    assert.equal(start(accountId, mib), may);
  });
}
