import assert from "node:assert/strict";
import { test } from "node:test";

import { type RecordedAttempt, explainArrivals } from "../../scripts/soak/duplicates.ts";
import {
  type SeenAsk,
  type SeenClaim,
  type TaskHistory,
  judgeLeases,
} from "../../scripts/soak/lease-judge.ts";
import type { Arrival } from "../../scripts/soak/ledger.ts";
import { type Sample, judgeFlat } from "../../scripts/soak/report.ts";

const killedAt = [1000, 2000];

function arrival(attempt: number, given: Partial<Arrival> = {}): Arrival {
  return { taskId: "t", kind: "postback", attempt, status: 200, receivedAt: 990, ...given };
}

function recorded(number: number, given: Partial<RecordedAttempt> = {}): RecordedAttempt {
  const times = { startedAt: 985, endedAt: 995 };
  const end = { outcome: "delivered", httpStatus: 200, error: null };
  return { taskId: "t", kind: "postback", number, ...end, ...times, ...given };
}

const INTERRUPTED = { outcome: "interrupted", httpStatus: null, endedAt: 1300 };
const CUT = recorded(1, INTERRUPTED);
const LATER = arrival(2, { receivedAt: 1400 });
const LATER_RECORD = recorded(2, { startedAt: 1390, endedAt: 1410 });
const EARLY = { ...INTERRUPTED, startedAt: 100, endedAt: 200 };
const TAKEN_BACK = recorded(1, { ...EARLY, error: "withdrawn before it was sent" });
const UNEXPLAINED = "duplicates are not explained";

type Facts = readonly [arrivals: readonly Arrival[], attempts: readonly RecordedAttempt[]];

const FINE: Readonly<Record<string, [...Facts, duplicates: number, unrecordedMs: number[]]>> = {
  "a webhook that arrived once and is recorded as delivered": [
    [arrival(1), arrival(1, { kind: "pingback" })],
    [recorded(1), recorded(1, { kind: "pingback" })],
    0,
    [],
  ],
  "a duplicate of an accepted attempt that was in flight at a kill": [
    [arrival(1), LATER],
    [CUT, LATER_RECORD],
    1,
    [10],
  ],
  "an attempt that a kill cut off before it arrived": [[LATER], [CUT, LATER_RECORD], 0, []],
  "an attempt that was taken back and did not arrive": [
    [arrival(2)],
    [TAKEN_BACK, recorded(2)],
    0,
    [],
  ],
  "a failed attempt before the accepted attempt": [
    [arrival(1, { status: 500 }), arrival(2)],
    [recorded(1, { outcome: "failed", httpStatus: 500 }), recorded(2)],
    0,
    [],
  ],
};
for (const [name, [arrivals, attempts, duplicates, unrecordedMs]] of Object.entries(FINE)) {
  test(`the judge accepts ${name}`, () => {
    const found = explainArrivals({ arrivals, attempts, killedAt });
    assert.deepEqual(found, { duplicates, unrecordedMs, faults: [] });
  });
}

const BOTH = [arrival(1), arrival(2)];
const FAULTY: Readonly<Record<string, [...Facts, faults: readonly string[]]>> = {
  "an attempt that was taken back and arrived": [
    BOTH,
    [TAKEN_BACK, recorded(2)],
    ["attempt 1", UNEXPLAINED],
  ],
  "an attempt that was interrupted before any kill": [
    [arrival(2)],
    [recorded(1, EARLY), recorded(2)],
    ["attempt 1 was interrupted"],
  ],
  "a duplicate whose attempts are both recorded as delivered": [
    BOTH,
    [recorded(1), recorded(2)],
    [UNEXPLAINED],
  ],
  "an accepted webhook that is recorded as failed": [
    BOTH,
    [recorded(1, { outcome: "timed_out", httpStatus: null }), recorded(2)],
    ["attempt 1 was answered 200 and is recorded as timed_out with null", UNEXPLAINED],
  ],
  "an attempt that was interrupted between two kills": [
    BOTH,
    [recorded(1, { ...INTERRUPTED, startedAt: 1100 }), recorded(2)],
    ["attempt 1 was interrupted", UNEXPLAINED],
  ],
  "an attempt that arrives twice": [
    [arrival(1), arrival(1)],
    [recorded(1)],
    ["attempt 1 arrived twice", UNEXPLAINED],
  ],
  "an arrival without a record": [[arrival(1)], [], ["attempt 1 arrived and is not on record"]],
  "a recorded delivery that did not arrive": [[], [recorded(1)], ["attempt 1 did not arrive"]],
};
for (const [name, [arrivals, attempts, expected]] of Object.entries(FAULTY)) {
  test(`the judge finds ${name}`, () => {
    const { faults } = explainArrivals({ arrivals, attempts, killedAt });
    assert.equal(faults.length, expected.length, faults.join("\n"));
    for (const [i, text] of expected.entries()) assert.ok(faults[i]?.includes(text), faults[i]);
  });
}

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

const STEP_MS = 5000;

/** The samples of a daemon that ran for so many minutes. */
function samples(minutes: number, at: (minute: number) => Partial<Sample>): readonly Sample[] {
  return Array.from({ length: (minutes * 60_000) / STEP_MS }, (_, i) => {
    const atMs = i * STEP_MS;
    return { atMs, rssBytes: 200e6, descriptors: 40, ...at(atMs / 60_000) };
  });
}

const CASES: readonly (readonly [name: string, samples: readonly Sample[], fault: RegExp])[] = [
  [
    "memory and descriptors that go up and down",
    samples(15, (minute) => ({
      rssBytes: 200e6 + 40e6 * Math.sin(minute * 9),
      descriptors: 40 + Math.round(10 * Math.sin(minute * 9)),
    })),
    /^$/,
  ],
  [
    "memory that rises only at the beginning",
    samples(15, (minute) => ({ rssBytes: 300e6 - 150e6 * Math.exp(-minute) })),
    /^$/,
  ],
  ["a run of a minute", samples(1, (minute) => ({ rssBytes: 200e6 + 900e6 * minute })), /^$/],
  [
    "memory that goes on rising",
    samples(15, (minute) => ({ rssBytes: 200e6 + 8e6 * minute })),
    /^memory grew by \d+ MB$/,
  ],
  [
    "descriptors that go on rising",
    samples(15, (minute) => ({ descriptors: 40 + Math.round(4 * minute) })),
    /^\d+ more descriptors/,
  ],
];
for (const [name, given, fault] of CASES) {
  test(`${name}: ${fault.source === "^$" ? "no fault" : "a fault"}`, () => {
    assert.match(judgeFlat(given).join(), fault);
  });
}
