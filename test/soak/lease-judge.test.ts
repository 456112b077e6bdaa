import assert from "node:assert/strict";
import { test } from "node:test";

import {
  judgeLeases,
  type SeenAsk,
  type SeenClaim,
  type TaskHistory,
} from "../../scripts/soak/lease-judge.ts";

// The lease `a` is claimed at 1000: it expires at 3000, and the run times out at 11000.
const RULE = { leaseMs: 2000, timeoutMs: 10_000 };

/** Reads `claim b 3100`, `complete a 1500 ok`, `fail a 1500 ok retry`, `fail a 1500 ok final`, `cancel 1200`. */
function historyOf(script: string): TaskHistory {
  const claims: SeenClaim[] = [];
  const asks: SeenAsk[] = [];
  let cancel: TaskHistory["cancel"] = null;
  for (const line of script.split(", ")) {
    const [what = "", leaseId = "", time = "", outcome = "", how = ""] = line.split(" ");
    const at = Number(time);
    if (what === "cancel") {
      cancel = { sentAt: Number(leaseId), acknowledgedAt: Number(leaseId) + 20 };
    } else if (what === "claim") {
      const expiresAt = outcome === "" ? at + RULE.leaseMs : Number(outcome);
      claims.push({ leaseId, sentAt: at - 10, answeredAt: at + 10, expiresAt });
    } else {
      const isLost = outcome === "unanswered";
      asks.push({
        what: what as SeenAsk["what"],
        leaseId,
        sentAt: at,
        answeredAt: isLost ? null : at + 20,
        outcome: isLost ? null : (outcome as SeenAsk["outcome"]),
        ...(how !== "" && { retry: how === "retry" }),
      });
    }
  }
  return { id: "task", claims, asks, cancel };
}

const A = "claim a 1000";

const ACCEPTED: readonly (readonly [name: string, script: string])[] = [
  ["a completed lease", `${A}, complete a 1500 ok`],
  ["a claim after the lease expired", `${A}, claim b 3001`],
  ["a claim right after a release", `${A}, claim b 1205, release a 1200 ok`],
  ["a claim after a lost completion", `${A}, claim b 3100, complete a 2900 unanswered`],
  ["a late completion before any newer claim", `${A}, complete a 9000 ok`],
  [
    "a late completion with outcome lost after a newer claim",
    `${A}, claim b 3100, complete a 3500 lost, complete b 4000 ok`,
  ],
  ["a repeated completion", `${A}, complete a 1500 ok, complete a 5000 ok`],
  [
    "a failure repeated after a newer claim",
    `${A}, claim b 2600, fail a 1500 ok retry, fail a 2700 ok retry`,
  ],
  ["a lost heartbeat after a release", `${A}, release a 1500 ok, heartbeat a 1600 lost`],
  ["a lost heartbeat after the lease expired", `${A}, heartbeat a 3100 lost`],
  ["a heartbeat that revives a lease", `${A}, claim b 7001, heartbeat a 5000 ok`],
  ["a lease lost at the timeout", `${A}, heartbeat a 10500 ok, heartbeat a 11100 lost`],
  ["a completion after a cancelling", `${A}, cancel 1200, complete a 1300 cancelled`],
  ["an unknown lease with outcome lost", `${A}, complete no 1300 lost`],
];
for (const [name, script] of ACCEPTED) {
  test(`the judge accepts ${name}`, () => {
    assert.deepEqual(judgeLeases(historyOf(script), RULE), []);
  });
}

const LIVE = /lease b was handed out while a was live/;
const ENDED = /lease b was handed out after the task's end/;
const FOUND: readonly (readonly [name: string, script: string, fault: RegExp])[] = [
  ["a claim while another lease is valid", `${A}, claim b 2500`, LIVE],
  ["a claim while heartbeats keep a lease", `${A}, claim b 4500, heartbeat a 2900 ok`, LIVE],
  [
    "a third claim while the first lease is valid",
    `${A}, claim b 1500, claim c 1700, release b 1600 ok`,
    LIVE,
  ],
  ["a claim before the end of a lease", `${A}, claim b 1500, complete a 1900 unanswered`, LIVE],
  ["one lease of two claims", `${A}, claim a 3500`, /a was handed out twice/],
  ["a lease of another length", "claim a 1000 3200", /a does not hold for its length/],
  [
    "a completion after a newer claim",
    `${A}, claim b 3100, complete a 3500 ok`,
    /complete with lease a was taken after a newer claim/,
  ],
  [
    "a heartbeat after a newer claim",
    `${A}, claim b 3100, heartbeat a 3500 ok`,
    /heartbeat with lease a was taken after a newer claim/,
  ],
  ["a lost heartbeat of a valid lease", `${A}, heartbeat a 1500 lost`, /heartbeat .* lost/],
  [
    "a lost completion of a kept lease",
    `${A}, heartbeat a 2900 ok, complete a 4000 lost`,
    /complete .* lost/,
  ],
  ["a cancelling without a request", `${A}, heartbeat a 1500 cancelled`, /nobody cancelled it/],
  ["an unknown lease with outcome ok", `${A}, complete no 1500 ok`, /nobody was given it/],
  ["a claim after a completion", `${A}, claim b 3500, complete a 1500 ok`, ENDED],
  ["a claim after a final failure", `${A}, claim b 3500, fail a 1500 ok final`, ENDED],
  ["a claim after a cancelling", "claim b 3500, cancel 1200", ENDED],
  [
    "two leases that complete one task",
    `${A}, claim b 3100, complete b 3500 ok, complete a 3100 ok`,
    /b and a completed it/,
  ],
];
for (const [name, script, fault] of FOUND) {
  test(`the judge finds ${name}`, () => {
    const faults = judgeLeases(historyOf(script), RULE);
    assert.equal(faults.length, 1, faults.join("\n"));
    assert.match(faults[0] ?? "", fault);
  });
}
