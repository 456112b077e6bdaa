import assert from "node:assert/strict";
import { test } from "node:test";

import {
  totalTally,
  TrafficTally,
  type EndedAttempt,
  type TrafficMinute,
} from "../../src/domain/stats/traffic-tally.ts";
import type { AttemptOutcome, DeliveryDecision } from "../../src/domain/webhook/delivery.ts";

const HOUR = 3_600_000;
const MINUTE = 60_000;
/** Half a minute into a minute, and half an hour into an hour. */
const AT = 500_000 * HOUR + HOUR / 2 + MINUTE / 2;

const AGAIN: DeliveryDecision = { state: "scheduled", dueAt: AT + 1, retry: 1 };

interface Facts {
  readonly outcome: AttemptOutcome;
  readonly decision: DeliveryDecision;
  readonly retry?: number;
  readonly host?: string;
  readonly accountId?: number;
  readonly endedAt?: number;
  readonly error?: string;
}

function ended({ outcome, decision, ...facts }: Facts): EndedAttempt {
  const { retry = 0, host = "a.example", accountId = 1, endedAt = AT, error = null } = facts;
  return {
    attempt: { accountId, taskSeq: 9, host, retry, startedAt: endedAt - 4 },
    result: { outcome, error, httpStatus: null },
    endedAt,
    decision,
  };
}

function tallied(...records: readonly EndedAttempt[]): ReturnType<TrafficTally["take"]> {
  const tally = new TrafficTally();
  for (const record of records) tally.addAttempt(record);
  return tally.take();
}

/** The only minute of an account. */
function minuteOf(accounts: ReturnType<TrafficTally["take"]>, accountId = 1): TrafficMinute {
  const [minute, another] = accounts.get(accountId)?.minutes.values() ?? [];
  assert(minute !== undefined && another === undefined);
  return minute;
}

function countsOf(minute: TrafficMinute): Record<string, number> {
  return Object.fromEntries(Object.entries(minute.counts).filter(([, count]) => count > 0));
}

const first = { first_attempts: 1 };
const COUNTED: readonly (readonly [string, Facts, object, object])[] = [
  [
    "a first attempt that delivers",
    { outcome: "delivered", decision: { state: "delivered" } },
    { ...first, first_delivered: 1, delivered: 1 },
    { attempts: 1, succeeded: 1 },
  ],
  [
    "a first attempt that fails",
    { outcome: "failed", decision: AGAIN },
    first,
    { attempts: 1, succeeded: 0 },
  ],
  [
    "a retry that delivers",
    { outcome: "delivered", decision: { state: "delivered" }, retry: 2 },
    { delivered: 1 },
    { attempts: 1, succeeded: 1 },
  ],
  [
    "the last retry that times out",
    { outcome: "timed_out", decision: { state: "given_up" }, retry: 3 },
    { given_up: 1 },
    { attempts: 1, succeeded: 0 },
  ],
  [
    "an attempt that is refused",
    { outcome: "refused", decision: { state: "refused" } },
    { ...first, refused: 1 },
    { attempts: 1, succeeded: 0 },
  ],
];

test("an attempt counts in the minute of its account and in the hour of its host", () => {
  for (const [which, facts, counts, ofHost] of COUNTED) {
    const accounts = tallied(ended(facts));
    const minute = minuteOf(accounts);
    const [hour] = accounts.get(1)?.hours() ?? [];

    assert.deepEqual(countsOf(minute), counts, which);
    assert.equal(minute.at, AT - MINUTE / 2);
    assert.deepEqual([hour?.at, hour?.host], [AT - (AT % HOUR), "a.example"]);
    assert.deepEqual(hour?.counts, ofHost, which);
    // 4 ms: the bucket from 2.8 to 4.
    assert.deepEqual(minute.durations, [0, 0, 0, 0, 1]);
    assert.deepEqual(hour?.durations, minute.durations);
  }
});

test("an interrupted attempt that is sent again is not traffic", () => {
  assert.equal(tallied(ended({ outcome: "interrupted", decision: AGAIN })).get(1)?.minutes.size, 0);
});

test("a last interrupted attempt does not count for its host", () => {
  const accounts = tallied(ended({ outcome: "interrupted", decision: { state: "given_up" } }));

  assert.deepEqual(countsOf(minuteOf(accounts)), { given_up: 1 });
  assert.deepEqual([...(accounts.get(1)?.hours() ?? [])], []);
});

test("the failure of a host that ended last is kept, in any order of recording", () => {
  const failed = (endedAt: number, error: string): EndedAttempt =>
    ended({ outcome: "failed", decision: AGAIN, endedAt, error });
  const failures = tallied(failed(AT, "late"), failed(AT - 5, "early")).get(1)?.failures;

  assert.equal(failures?.get("a.example")?.result.error, "late");
  assert.equal(failures?.size, 1);
});

test("a count is taken once", () => {
  const tally = new TrafficTally();
  tally.addTasks({ accountId: 1, at: AT, posted: 3 });

  assert.deepEqual(countsOf(minuteOf(tally.take())), { posted: 3 });
  assert.equal(tally.take().size, 0);
});

test("the total is the sum of the accounts by minute and by host", () => {
  const tally = new TrafficTally();
  tally.addTasks({ accountId: 1, at: AT, posted: 3, failed: 1 });
  tally.addTasks({ accountId: 2, at: AT, completed: 2 });
  tally.addTasks({ accountId: 2, at: AT + MINUTE, cancelled: 4 });
  const delivered = { outcome: "delivered", decision: { state: "delivered" } } as const;
  for (const accountId of [1, 2]) tally.addAttempt(ended({ ...delivered, accountId }));
  tally.addAttempt(ended({ ...delivered, accountId: 2, host: "b.example" }));
  const accounts = tally.take();

  const total = totalTally(accounts);
  const all = { posted: 3, failed: 1, completed: 2 };
  const sent = { first_attempts: 3, first_delivered: 3, delivered: 3 };
  assert.deepEqual([...total.minutes.values()].map(countsOf), [
    { ...all, ...sent },
    { cancelled: 4 },
  ]);
  const hours = [...total.hours()].map(({ host, counts }) => [host, counts.attempts]);
  assert.deepEqual(hours, [
    ["a.example", 2],
    ["b.example", 1],
  ]);
  // The sum does not change the rows of an account.
  assert.equal(minuteOf(accounts, 1).counts.first_attempts, 1);
});
