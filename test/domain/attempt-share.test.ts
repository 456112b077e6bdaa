import assert from "node:assert/strict";
import { test } from "node:test";

import { StartedAttempts } from "../../src/domain/webhook/delivery.ts";

const MIB = 1024 * 1024;

/** Attempts started before as account and MiB, then the account and MiB of another, and whether it starts. */
const CASES = {
  "the first of any size": [[], 1, 100, true],
  "up to 32 MiB in all": [["1 8", "2 8", "3 8"], 4, 8, true],
  "beyond 32 MiB in all": [["1 8", "2 8", "3 8"], 4, 8.1, false],
  "the first of another account": [["1 20"], 2, 12, true],
  "up to 8 MiB of an account": [["1 4"], 1, 4, true],
  "beyond 8 MiB of an account": [["1 4"], 1, 4.1, false],
  "the second after a large first": [["1 20"], 1, 1, false],
  "no bytes": [["1 8"], 1, 0, true],
} as const;

test("a claim of attempts is limited by bytes in all and for each account", () => {
  for (const [what, [before, accountId, mib, isStarted]] of Object.entries(CASES)) {
    const claim = new StartedAttempts();
    const start = (account: number, mibs: number) =>
      claim.start({ seq: 1, accountId: account, bytes: mibs * MIB });
    for (const each of before) {
      const [account, mibs] = each.split(" ").map(Number);
      assert.equal(start(account ?? 0, mibs ?? 0), true);
    }

    assert.equal(start(accountId, mib), isStarted, what);
  }
});
