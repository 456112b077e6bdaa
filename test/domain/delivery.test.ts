import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import {
  ALONE,
  type AttemptOutcome,
  StartedAttempts,
  decideDelivery,
  examinedBy,
  isWorkedOff,
  shareOfAll,
  shareOfHost,
  shownDeliveryState,
  stepSize,
} from "../../src/domain/webhook/delivery.ts";

const ENDED = Date.parse("2030-01-31T09:00:00.000Z");
const MINUTE = 60_000;
const SCHEDULE = [MINUTE, 5 * MINUTE, 15 * MINUTE];

function scheduled(waitMs: number, retry: number) {
  return { state: "scheduled", dueAt: ENDED + waitMs, retry } as const;
}

const cases = [
  ["delivered", 0, { state: "delivered" }],
  ["delivered", 3, { state: "delivered" }],
  ["refused", 0, { state: "refused" }],
  ["refused", 2, { state: "refused" }],
  ["failed", 0, scheduled(MINUTE, 1)],
  ["failed", 1, scheduled(5 * MINUTE, 2)],
  ["failed", 2, scheduled(15 * MINUTE, 3)],
  ["failed", 3, { state: "given_up" }],
  ["timed_out", 0, scheduled(MINUTE, 1)],
  ["timed_out", 3, { state: "given_up" }],
  ["interrupted", 0, scheduled(0, 0)],
  ["interrupted", 3, scheduled(0, 3)],
] as const;
test("an attempt decides the delivery by its outcome and the retries used", () => {
  for (const [outcome, retriesUsed, expected] of cases) {
    const facts = { endedAt: ENDED, retriesUsed, retryAfterMs: SCHEDULE };

    assert.deepEqual(decideDelivery(outcome, facts), expected, `${outcome} ${retriesUsed}`);
  }
});

test("a delivery without configured retries is given up after one attempt", () => {
  const facts = { endedAt: ENDED, retriesUsed: 0, retryAfterMs: [] };

  assert.deepEqual(decideDelivery("failed", facts), { state: "given_up" });
  assert.deepEqual(decideDelivery("interrupted", facts), scheduled(0, 0));
});

test("a delivery is given up if the schedule is shorter than the retries used", () => {
  const facts = { endedAt: ENDED, retriesUsed: 5, retryAfterMs: SCHEDULE };

  assert.deepEqual(decideDelivery("timed_out", facts), { state: "given_up" });
});

test("a delivery has at most four attempts that count, each after its wait", () => {
  const outcome = fc.constantFrom<AttemptOutcome>(
    ...(["delivered", "failed", "timed_out", "refused", "interrupted"] as const),
  );
  fc.assert(
    fc.property(fc.array(outcome, { minLength: 1, maxLength: 40 }), (outcomes) => {
      let [endedAt, retriesUsed, counted] = [ENDED, 0, 0];
      for (const each of outcomes) {
        const decision = decideDelivery(each, { endedAt, retriesUsed, retryAfterMs: SCHEDULE });
        if (each !== "interrupted") counted++;
        if (decision.state !== "scheduled") break;
        const wait = each === "interrupted" ? 0 : SCHEDULE[retriesUsed];
        assert.equal(decision.dueAt - endedAt, wait);
        retriesUsed = decision.retry;
        endedAt = decision.dueAt + 1;
      }
      assert(counted <= 4);
      assert(retriesUsed <= 3);
    }),
  );
});

const NODES = fc.uniqueArray(fc.uuid(), { minLength: 1, maxLength: 12 });
const LIMIT = fc.integer({ min: 1, max: 600 });
const HOST = fc.webAuthority();

function sharesOf(max: number, host: string, members: readonly string[]): readonly number[] {
  return members.map((self) => shareOfHost(max, host, { self, members }));
}

test("a single node has every slot", () => {
  assert.equal(shareOfHost(32, "a.example", ALONE), 32);
  assert.equal(shareOfAll(512, ALONE), 512);
});

test("the shares of a host add up to its limit and differ by at most one", () => {
  fc.assert(
    fc.property(NODES, LIMIT, HOST, (members, max, host) => {
      const shares = sharesOf(max, host, members);
      assert.equal(
        shares.reduce((sum, share) => sum + share, 0),
        max,
      );
      assert(Math.max(...shares) - Math.min(...shares) <= 1);
    }),
  );
});

test("every node computes the same shares, for any order of the members", () => {
  fc.assert(
    fc.property(NODES, LIMIT, HOST, (members, max, host) => {
      const turned = members.toReversed();
      assert.deepEqual(sharesOf(max, host, turned).toReversed(), sharesOf(max, host, members));
    }),
  );
});

test("a host with a limit of 1 belongs to exactly one node", () => {
  fc.assert(
    fc.property(NODES, HOST, (members, host) => {
      const shares = sharesOf(1, host, members);
      assert.deepEqual(
        shares.filter((share) => share > 0),
        [1],
      );
    }),
  );
});

test("the end of a node moves only its own hosts", () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.uuid(), { minLength: 2, maxLength: 12 }),
      HOST,
      (members, host) => {
        const ownerOf = (nodes: readonly string[]) => nodes[sharesOf(1, host, nodes).indexOf(1)];
        const owner = ownerOf(members);
        const [gone] = members.filter((each) => each !== owner);
        assert.equal(ownerOf(members.filter((each) => each !== gone)), owner);
      },
    ),
  );
});

test("four nodes own about a quarter of the hosts each", () => {
  const members = [1, 2, 3, 4].map((n) => `0190f1a0-0000-7000-8000-00000000000${n}`);
  const owned = members.map((self) => {
    const hosts = Array.from({ length: 1000 }, (_, i) => `shop-${i}.example`);
    return hosts.filter((host) => shareOfHost(1, host, { self, members }) === 1).length;
  });
  for (const hosts of owned) assert(hosts > 180 && hosts < 320, owned.join());
});

test("the slots for all hosts are rounded up, so every node has one", () => {
  const among = (n: number) => ({ members: Array.from({ length: n }, (_, i) => String(i)) });
  assert.deepEqual(
    [1, 2, 3, 600].map((n) => shareOfAll(512, among(n))),
    [512, 256, 171, 1],
  );
});

test("a step starts at most a hundred series", () => {
  assert.deepEqual([1, 100, 1000, 0, -3].map(stepSize), [1, 100, 100, 0, 0]);
});

test("a step has examined all attempts up to its end, or to the last one it found", () => {
  assert.equal(examinedBy({ found: [], max: 2, to: 90 }), 90);
  assert.equal(examinedBy({ found: [{ seq: 40 }], max: 2, to: 90 }), 90);
  assert.equal(examinedBy({ found: [{ seq: 40 }, { seq: 50 }], max: 2, to: 90 }), 50);
});

test("a bulk redelivery ends at the last attempt that existed at its start", () => {
  assert(!isWorkedOff({ examined: 8, lastAttempt: 9 }));
  assert(isWorkedOff({ examined: 9, lastAttempt: 9 }));
  assert(isWorkedOff({ examined: 0, lastAttempt: 0 }));
});

test("an open delivery is scheduled until its attempt starts", () => {
  assert.equal(shownDeliveryState("open", { startedAt: null }), "scheduled");
  assert.equal(shownDeliveryState("open", { startedAt: 5 }), "in_flight");
  assert.equal(shownDeliveryState("given_up", { startedAt: 5 }), "given_up");
});

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
