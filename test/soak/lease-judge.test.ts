import assert from "node:assert/strict";
import { describe, test } from "node:test";

import {
  judgeLeases,
  type SeenAsk,
  type SeenClaim,
  type TaskHistory,
} from "../../scripts/soak/lease-judge.ts";

// Claimed at 1000, so that the lease runs out at 3000 and the run at 11000.
const RULE = { leaseMs: 2000, timeoutMs: 10_000 };
const FIRST = claim("a", 1000);

function claim(leaseId: string, claimedAt: number): SeenClaim {
  const [sentAt, answeredAt] = [claimedAt - 10, claimedAt + 10];
  return { leaseId, sentAt, answeredAt, expiresAt: claimedAt + RULE.leaseMs };
}

function ask(
  what: SeenAsk["what"],
  leaseId: string,
  { at, outcome, ...more }: { at: number; outcome: SeenAsk["outcome"] } & Partial<SeenAsk>,
): SeenAsk {
  const answeredAt = outcome === null ? null : at + 20;
  return { what, leaseId, sentAt: at, answeredAt, outcome, ...more };
}

function faultsOf(seen: Partial<TaskHistory>): readonly string[] {
  const history = { id: "task", claims: [FIRST], asks: [], cancel: null, ...seen };
  return judgeLeases(history, RULE).map((fault) => fault.replace(/^task: /, ""));
}

describe("what may be", () => {
  const allowed: Readonly<Record<string, Partial<TaskHistory>>> = {
    "a lease that is completed": { asks: [ask("complete", "a", { at: 1500, outcome: "ok" })] },
    "a claim after the lease ran out": { claims: [FIRST, claim("b", 3001)] },
    "a claim right after a release": {
      claims: [FIRST, claim("b", 1205)],
      asks: [ask("release", "a", { at: 1200, outcome: "ok" })],
    },
    "a claim after a completion whose outcome nobody saw, and that did not count": {
      claims: [FIRST, claim("b", 3100)],
      asks: [ask("complete", "a", { at: 2900, outcome: null })],
    },
    "a late completion while nobody else has claimed the task": {
      asks: [ask("complete", "a", { at: 9000, outcome: "ok" })],
    },
    "a late completion that is lost to a newer lease": {
      claims: [FIRST, claim("b", 3100)],
      asks: [
        ask("complete", "a", { at: 3500, outcome: "lost" }),
        ask("complete", "b", { at: 4000, outcome: "ok" }),
      ],
    },
    "a completion that is repeated": {
      asks: [
        ask("complete", "a", { at: 1500, outcome: "ok" }),
        ask("complete", "a", { at: 5000, outcome: "ok" }),
      ],
    },
    "a failure that is repeated after the task was claimed again": {
      claims: [FIRST, claim("b", 2600)],
      asks: [
        ask("fail", "a", { at: 1500, outcome: "ok", retry: true }),
        ask("fail", "a", { at: 2700, outcome: "ok", retry: true }),
      ],
    },
    "a lost lease whose run had ended before": {
      asks: [
        ask("release", "a", { at: 1500, outcome: "ok" }),
        ask("heartbeat", "a", { at: 1600, outcome: "lost" }),
      ],
    },
    "a heartbeat that is lost when the lease has run out": {
      asks: [ask("heartbeat", "a", { at: 3100, outcome: "lost" })],
    },
    "a heartbeat that revives a lease, which is live again": {
      claims: [FIRST, claim("b", 7001)],
      asks: [ask("heartbeat", "a", { at: 5000, outcome: "ok" })],
    },
    "a lease that is lost at the type's timeout, whatever the heartbeats": {
      asks: [
        ask("heartbeat", "a", { at: 10_500, outcome: "ok" }),
        ask("heartbeat", "a", { at: 11_100, outcome: "lost" }),
      ],
    },
    "a completion after the cancelling": {
      cancel: { sentAt: 1200, acknowledgedAt: 1220 },
      asks: [ask("complete", "a", { at: 1300, outcome: "cancelled" })],
    },
    "an unknown lease that is lost": {
      asks: [ask("complete", "no", { at: 1300, outcome: "lost" })],
    },
  };
  for (const [name, seen] of Object.entries(allowed)) {
    test(`${name} is no violation`, () => assert.deepEqual(faultsOf(seen), []));
  }
});

describe("what must never be", () => {
  const violations: Readonly<Record<string, [Partial<TaskHistory>, RegExp]>> = {
    "a claim while another lease holds": [
      { claims: [FIRST, claim("b", 2500)] },
      /^lease b was handed out while a was live$/,
    ],
    "a claim while another lease is kept by heartbeats": [
      {
        claims: [FIRST, claim("b", 4500)],
        asks: [ask("heartbeat", "a", { at: 2900, outcome: "ok" })],
      },
      /^lease b was handed out while a was live$/,
    ],
    "a third claim while the first lease is live, though the second is over": [
      {
        claims: [FIRST, claim("b", 1500), claim("c", 1700)],
        asks: [ask("release", "b", { at: 1600, outcome: "ok" })],
      },
      /^lease b was handed out while a was live$/,
    ],
    "a claim before an end that only comes later": [
      {
        claims: [FIRST, claim("b", 1500)],
        asks: [ask("complete", "a", { at: 1900, outcome: null })],
      },
      /^lease b was handed out while a was live$/,
    ],
    "one lease that is handed out twice": [
      { claims: [FIRST, claim("a", 3500)] },
      /^lease a was handed out twice$/,
    ],
    "a lease whose end fits no moment of the claim": [
      { claims: [{ ...FIRST, expiresAt: 3200 }] },
      /^lease a does not hold for its length from the claim$/,
    ],
    "a completion that is taken after a newer claim": [
      {
        claims: [FIRST, claim("b", 3100)],
        asks: [ask("complete", "a", { at: 3500, outcome: "ok" })],
      },
      /^complete with lease a was taken after a newer claim$/,
    ],
    "a heartbeat that is taken after a newer claim": [
      {
        claims: [FIRST, claim("b", 3100)],
        asks: [ask("heartbeat", "a", { at: 3500, outcome: "ok" })],
      },
      /^heartbeat with lease a was taken after a newer claim$/,
    ],
    "a live lease that is lost": [
      { asks: [ask("heartbeat", "a", { at: 1500, outcome: "lost" })] },
      /^heartbeat with lease a was answered lost, and it was live$/,
    ],
    "a completion that is lost though its lease is kept": [
      {
        asks: [
          ask("heartbeat", "a", { at: 2900, outcome: "ok" }),
          ask("complete", "a", { at: 4000, outcome: "lost" }),
        ],
      },
      /^complete with lease a was answered lost, and it was live$/,
    ],
    "a lease that is cancelled by nobody": [
      { asks: [ask("heartbeat", "a", { at: 1500, outcome: "cancelled" })] },
      /^heartbeat with lease a was answered cancelled, and nobody cancelled it$/,
    ],
    "a lease that nobody was given and that counts": [
      { asks: [ask("complete", "no", { at: 1500, outcome: "ok" })] },
      /^complete with lease no was answered ok, and nobody was given it$/,
    ],
    "a claim after a completion": [
      {
        claims: [FIRST, claim("b", 3500)],
        asks: [ask("complete", "a", { at: 1500, outcome: "ok" })],
      },
      /^lease b was handed out after the task's end$/,
    ],
    "a claim after a failure that is final": [
      {
        claims: [FIRST, claim("b", 3500)],
        asks: [ask("fail", "a", { at: 1500, outcome: "ok", retry: false })],
      },
      /^lease b was handed out after the task's end$/,
    ],
    "a claim after the cancelling": [
      { claims: [claim("b", 3500)], cancel: { sentAt: 1200, acknowledgedAt: 1220 } },
      /^lease b was handed out after the task's end$/,
    ],
    "two leases that complete one task": [
      {
        claims: [FIRST, claim("b", 3100)],
        asks: [
          ask("complete", "b", { at: 3500, outcome: "ok" }),
          ask("complete", "a", { at: 3100, outcome: "ok" }),
        ],
      },
      /^b and a completed it, each answered ok$/,
    ],
  };
  for (const [name, [seen, expected]] of Object.entries(violations)) {
    test(`${name} is found`, () => {
      const faults = faultsOf(seen);

      assert.equal(faults.length, 1, faults.join("\n"));
      assert.match(faults[0] ?? "", expected);
    });
  }
});
