import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import {
  BUCKET_MAX,
  MINUTES_KEPT_MS,
  SERIES_BUCKETS_MAX,
  SERIES_STEPS_MS,
  bucketOf,
  earlier,
  isMarkDue,
  percentile,
  seriesRange,
  successShare,
  sumSteps,
  toSeries,
  type SeriesDuration,
  type SeriesStep,
  waitedMs,
  waitsSince,
} from "../../src/domain/stats/time-series.ts";
import {
  TrafficTally,
  totalTally,
  type EndedAttempt,
  type TrafficMinute,
} from "../../src/domain/stats/traffic-tally.ts";
import type { AttemptOutcome, DeliveryDecision } from "../../src/domain/webhook/delivery.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const NOW = Date.parse("2026-01-31T09:00:30.000Z");

function stepOf(at: number, counts: Partial<SeriesStep> = {}): SeriesStep {
  return {
    ...{ at, posted: 0, completed: 0, failed: 0, cancelled: 0, firstAttempts: 0 },
    ...{ firstDelivered: 0, delivered: 0, givenUp: 0, refused: 0, queued: 0, oldestMs: 0 },
    ...counts,
  };
}

const lengths = fc.integer({ min: 1, max: 179 * DAY });
const ends = fc.integer({ min: NOW - 400 * DAY, max: NOW + DAY });

const ranges = fc.tuple(ends, lengths).map(([to, lengthMs]) => {
  const range = seriesRange({ from: to - lengthMs, to, now: NOW });
  assert(range !== null);
  return { asked: { from: to - lengthMs, to }, range };
});

test("a range covers the requested time in whole steps up to the maximum", () => {
  fc.assert(
    fc.property(ranges, ({ asked, range: { from, to, stepMs } }) => {
      assert(from <= asked.from && asked.from - from < stepMs);
      assert(to >= asked.to && to - asked.to < stepMs);
      assert.equal(from % stepMs, 0);
      const count = (to - from) / stepMs;
      assert(Number.isInteger(count) && count >= 1 && count <= SERIES_BUCKETS_MAX);
      assert(SERIES_STEPS_MS.includes(stepMs));
      if (asked.from < NOW - MINUTES_KEPT_MS) assert(stepMs >= HOUR);
    }),
  );
});

test("a range has the smallest possible step", () => {
  const stepOver = (lengthMs: number): number | undefined =>
    seriesRange({ from: NOW - lengthMs, to: NOW, now: NOW })?.stepMs;
  const steps = [
    ...[stepOver(HOUR), stepOver(2 * HOUR), stepOver(6 * HOUR), stepOver(24 * HOUR)],
    ...[stepOver(MINUTES_KEPT_MS), stepOver(MINUTES_KEPT_MS + 1), stepOver(7 * DAY)],
    ...[stepOver(8 * DAY), stepOver(30 * DAY), stepOver(90 * DAY)],
  ];
  assert.deepEqual(steps, [
    ...[MINUTE, MINUTE, 5 * MINUTE, 15 * MINUTE, 15 * MINUTE],
    ...[HOUR, HOUR, 3 * HOUR, 6 * HOUR, DAY],
  ]);
  const [from, to] = [NOW - 3 * DAY, NOW - 3 * DAY + 1];
  assert.equal(seriesRange({ from, to, now: NOW })?.stepMs, HOUR);
});

test("a range that is empty, backwards or longer than 180 days has no series", () => {
  assert.equal(seriesRange({ from: NOW, to: NOW, now: NOW }), null);
  assert.equal(seriesRange({ from: NOW, to: NOW - 1, now: NOW }), null);
  assert.equal(seriesRange({ from: NOW - 181 * DAY, to: NOW, now: NOW }), null);
});

test("the buckets add up to the steps, for any range", () => {
  const counted = fc.record({
    ...{ posted: fc.nat(1000), delivered: fc.nat(1000), firstAttempts: fc.nat(1000) },
    ...{ queued: fc.nat(1000), oldestMs: fc.nat(1000) },
  });
  const given = ranges.chain(({ range }) => {
    const at = fc.integer({ min: range.from, max: range.to - 1 });
    const steps = fc.array(fc.tuple(at, counted).map(([time, each]) => stepOf(time, each)));
    const duration = fc.record({
      at,
      bucket: fc.nat(BUCKET_MAX),
      count: fc.integer({ min: 1, max: 99 }),
    });
    return fc.record({ range: fc.constant(range), steps, durations: fc.array(duration) });
  });
  fc.assert(
    fc.property(given, ({ range, steps, durations }) => {
      const buckets = toSeries(range, { steps, durations, served: [], now: NOW });
      assert.deepEqual(sumSteps(buckets), sumSteps(steps));
      const attempts = durations.reduce((sum, { count }) => sum + count, 0);
      assert.equal(
        buckets.reduce((sum, bucket) => sum + bucket.attempts, 0),
        attempts,
      );
      assert.deepEqual(
        buckets.map(({ at }) => at),
        buckets.map((_, i) => range.from + i * range.stepMs),
      );
      for (const { attempts: ended, p50Ms, p95Ms, p99Ms } of buckets) {
        assert.equal(p50Ms === null, ended === 0);
        if (p50Ms !== null) assert(p50Ms <= Number(p95Ms) && Number(p95Ms) <= Number(p99Ms));
      }
    }),
  );
});

test("a bucket contains the steps that begin in it", () => {
  const range = { from: 10 * MINUTE, to: 13 * MINUTE, stepMs: MINUTE };
  const times = [10 * MINUTE - 1, 10 * MINUTE, 11 * MINUTE - 1, 12 * MINUTE, 13 * MINUTE];
  const steps = times.map((at) => stepOf(at, { posted: 1, queued: at, oldestMs: 7 }));
  const durations: SeriesDuration[] = times.map((at) => ({ at, bucket: 0, count: 1 }));
  const buckets = toSeries(range, { steps, durations, served: [], now: 12 * MINUTE });
  const counted = (name: "posted" | "attempts" | "queued"): number[] =>
    buckets.map((bucket) => bucket[name]);
  assert.deepEqual(counted("posted"), [2, 0, 1]);
  assert.deepEqual(counted("attempts"), [2, 0, 1]);
  assert.deepEqual(counted("queued"), [11 * MINUTE - 1, 0, 12 * MINUTE]);
  assert.deepEqual(
    buckets.map(({ isWhole }) => isWhole),
    [true, true, false],
  );
});

test("a bucket is served if a daemon ran in it or is running in it", () => {
  const range = { from: 0, to: 5 * MINUTE, stepMs: MINUTE };
  const steps = [stepOf(0, { posted: 1 })];
  const served = [{ at: 2 * MINUTE }];
  const buckets = toSeries(range, { steps, durations: [], served, now: 3 * MINUTE });
  assert.deepEqual(
    buckets.map(({ isServed }) => isServed),
    [true, false, true, true, false],
  );
});

test("success is the share of delivered among ended deliveries, and null without ended ones", () => {
  assert.equal(successShare({ delivered: 0, givenUp: 0, refused: 0 }), null);
  assert.equal(successShare({ delivered: 3, givenUp: 1, refused: 0 }), 0.75);
  assert.equal(successShare({ delivered: 0, givenUp: 0, refused: 2 }), 0);
});

function bucketCounts(durations: readonly number[]): ReadonlyMap<number, number> {
  const counts = new Map<number, number>();
  for (const duration of durations) {
    const bucket = bucketOf(duration);
    counts.set(bucket, (counts.get(bucket) ?? 0) + 1);
  }
  return counts;
}

function exactPercentile(durations: readonly number[], share: number): number {
  const sorted = durations.toSorted((a, b) => a - b);
  return sorted[Math.max(1, Math.ceil(share * sorted.length)) - 1] ?? 0;
}

test("a percentile is exact within a factor of √2", () => {
  const durations = fc.array(fc.double({ min: 1, max: 64_000, noNaN: true }), {
    minLength: 1,
    maxLength: 200,
  });
  fc.assert(
    fc.property(durations, fc.constantFrom(0.5, 0.95, 0.99), (given, share) => {
      const read = percentile(bucketCounts(given), share) ?? 0;
      const ratio = read / exactPercentile(given, share);
      assert.ok(ratio <= Math.SQRT2 + 1e-9 && ratio >= Math.SQRT1_2 - 1e-9, String(ratio));
    }),
  );
});

test("a bucket contains durations up to its bound, inclusive", () => {
  for (let bucket = 0; bucket < BUCKET_MAX; bucket++) {
    const bound = 2 ** (bucket / 2);
    assert.equal(bucketOf(bound), bucket);
    assert.equal(bucketOf(bound * (1 + Number.EPSILON)), bucket + 1);
  }
});

test("an invalid duration is in the first bucket, and an infinite one in the last", () => {
  for (const nothing of [0, -1, Number.NaN, Number.NEGATIVE_INFINITY]) {
    assert.equal(bucketOf(nothing), 0);
  }
  assert.equal(bucketOf(Number.POSITIVE_INFINITY), BUCKET_MAX);
});

test("a percentile without durations is null", () => {
  assert.equal(percentile(new Map(), 0.5), null);
  assert.equal(percentile(new Map([[3, 0]]), 0.5), null);
});

test("the earlier of two times is returned, and a time is earlier than null", () => {
  assert.equal(earlier(1, 2), 1);
  assert.equal(earlier(2, 1), 1);
  assert.equal(earlier(null, 2), 2);
  assert.equal(earlier(2, null), 2);
  assert.equal(earlier(null, null), null);
});

test("a wait is never negative", () => {
  assert.equal(waitedMs(10, 25), 15);
  assert.equal(waitedMs(25, 10), 0);
  assert.equal(waitedMs(null, 10), 0);
});

test("a queue checkpoint is due without one, and after its interval of service", () => {
  assert(isMarkDue(undefined, { servedMs: 0, everyMs: 60 }));
  assert(!isMarkDue({ servedMs: 50 }, { servedMs: 9, everyMs: 60 }));
  assert(isMarkDue({ servedMs: 50 }, { servedMs: 10, everyMs: 60 }));
});

test("a task waits since a queue checkpoint if it was queued before it", () => {
  assert(waitsSince(5, null));
  assert(waitsSince(5, 4));
  assert(!waitsSince(5, 5));
  assert(!waitsSince(5, 6));
});

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
