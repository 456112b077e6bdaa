import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";

import { serviceWaitMs } from "../../src/deliver/service-retry.ts";
import type { LogFacts, Logger } from "../../src/domain/log.ts";
import { ServiceWatch } from "../../src/run/http.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { type Reply } from "../helpers/receiver.ts";
import {
  NOW,
  TIMEOUT_MS,
  completed,
  failureOf,
  passWait,
  runOnce,
  startService,
} from "./http-run.ts";

const DONE: Reply = { kind: "status", status: 200, body: "1" };

function busy(status: number, retryAfter?: string): Reply {
  const headers = retryAfter === undefined ? {} : { "retry-after": retryAfter };
  return { kind: "status", status, headers, body: "not now" };
}

test("a 429, 502, 503 or 504 is retried with the same task and key until another response", async (t) => {
  const { receiver, clock, run } = await startService(t, DONE);
  receiver.answerNext(busy(429), busy(502), busy(503), busy(504));

  const outcome = run({ id: "t-7", inputText: "[1.0]" });
  const waits: number[] = [];
  for (let retry = 0; retry < 4; retry++) waits.push(await passWait(clock));

  assert.deepEqual([await outcome, waits], [completed("1"), [250, 500, 1000, 2000]]);
  assert.deepEqual(clock.pending(), []);
  const bodies = new Set(receiver.requests.map(({ rawBody }) => rawBody.toString()));
  const keys = new Set(receiver.requests.map(({ headers }) => headers["idempotency-key"]));
  assert.deepEqual([receiver.requests.length, bodies.size, [...keys]], [5, 1, ["t-7"]]);
});

test("requests to an unreachable service are repeated with doubling waits until the timeout: 50401", async (t) => {
  const { receiver, clock, run } = await startService(t);
  await receiver.close();

  const outcome = run({ timeoutMs: 100_000 });
  const waits: number[] = [];
  let left = 100_000;
  while (left > 0) {
    const ms = await passWait(clock);
    waits.push(ms);
    left -= ms;
  }

  assert.deepEqual(waits, [250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 8250]);
  const { detail } = failureOf(await outcome, "timed_out");
  assert.deepEqual([detail["attempts"], detail["http_status"]], [10, null]);
  assert.match(String(detail["error"]), /refused/);
  assert.equal(clock.now(), NOW + 100_000);
  assert.deepEqual(clock.pending(), []);
});

test("a hanging response is 50401 at exactly the timeout, and its connection is closed", async (t) => {
  const { receiver, clock, run } = await startService(t, { kind: "hang" });
  let isOver = false;
  const outcome = run().finally(() => {
    isOver = true;
  });
  await receiver.next();

  clock.advance(TIMEOUT_MS - 1);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(isOver, false);
  clock.advance(1);

  const failure = failureOf(await outcome, "timed_out");
  const detail = { attempts: 1, http_status: null, error: null, response_excerpt: null };
  assert.deepEqual(failure.detail, detail);
  await receiver.whenDisconnected();
  assert.deepEqual(clock.pending(), []);
});

test("50401 has the last response", async (t) => {
  const { receiver, clock, run } = await startService(t, { kind: "hang" });
  receiver.answerNext(busy(429), busy(503));

  const outcome = run({ timeoutMs: 1000 });
  assert.deepEqual([await passWait(clock), await passWait(clock)], [250, 500]);
  await receiver.waitFor(3);
  clock.advance(250);

  const { detail } = failureOf(await outcome, "timed_out");
  const last = { http_status: 503, error: null, response_excerpt: "not now" };
  assert.deepEqual(detail, { attempts: 3, ...last });
});

test("Retry-After sets the wait before the next request, and an invalid value is ignored", async (t) => {
  const { receiver, clock, run } = await startService(t, DONE);
  receiver.answerNext(
    busy(503, "7"),
    busy(429, "Thu, 31 Jan 2030 09:00:17 GMT"),
    busy(503, "soon"),
    busy(503, "0"),
    busy(503),
  );

  const outcome = run();
  const waits: number[] = [];
  for (let count = 0; count < 5; count++) waits.push(await passWait(clock));

  // By the clock of 09:00:07 the date is 10 s ahead.
  assert.deepEqual(waits, [7000, 10_000, 1000, 250, 4000]);
  assert.deepEqual(await outcome, completed("1"));
});

test("a Retry-After beyond the timeout ends at the timeout", async (t) => {
  for (const far of ["61", "9999999999", "Fri, 31 Dec 9999 23:59:59 GMT"]) {
    const { clock, run } = await startService(t, busy(503, far));
    const outcome = run();

    assert.equal(await passWait(clock), TIMEOUT_MS);
    const { detail } = failureOf(await outcome, "timed_out");
    assert.deepEqual([detail["attempts"], detail["http_status"]], [1, 503]);
    assert.deepEqual(clock.pending(), []);
  }
});

test("the wait is Retry-After in seconds or as an HTTP date; otherwise it doubles, less up to a half at random", () => {
  const wait = (retryAfter: string | undefined, failures = 1, random = 0): number =>
    serviceWaitMs({ failures, retryAfter, now: NOW, random });

  const asked: readonly [string, number][] = [
    ["2", 2000],
    ["0", 250],
    ["Thu, 31 Jan 2030 09:00:03 GMT", 3000],
    ["Thursday, 31-Jan-30 09:00:03 GMT", 3000],
    ["Thu, 31 Jan 2020 09:00:03 GMT", 250],
  ];
  for (const [text, ms] of asked) assert.equal(wait(text, 9, 0.5), ms, text);
  const passedOver = [
    ...["", "1.5", "-1", "1 s", "1e3", "99999999999", "2030-01-31T09:00:03Z", "tomorrow"],
    ...[
      "Thu, 31 Jan 2030 09:00:03",
      "Thu, 99 Jan 2030 09:00:03 GMT",
      "Thu, 31 Jan 2030 09:00:03 PST",
    ],
  ];
  for (const text of passedOver) assert.equal(wait(text), 250, text);

  assert.deepEqual(
    [1, 2, 3, 7, 8, 50, 2000].map((failures) => wait(undefined, failures)),
    [250, 500, 1000, 16_000, 30_000, 30_000, 30_000],
  );
  assert.equal(wait(undefined, 1, 0.5), 187.5);
});

test("an abort ends a wait, and no request follows it", async (t) => {
  const { clock, run, receiver } = await startService(t, busy(503, "30"));
  const abort = new AbortController();

  const outcome = run({ signal: abort.signal });
  await clock.whenPending(2);
  abort.abort();

  assert.deepEqual(await outcome, { kind: "aborted" });
  assert.deepEqual(await run({ signal: abort.signal }), { kind: "aborted" });
  assert.deepEqual(clock.pending(), []);
  assert.equal(receiver.requests.length, 1);
});

test("a run leaves no listener on its signal", async (t) => {
  const { run } = await startService(t, DONE);
  const { signal } = new AbortController();
  await run({ signal });
  assert.deepEqual(getEventListeners(signal, "abort"), []);
});

type Line = readonly [level: "info" | "warn", facts: LogFacts];

function startWatch(clock = createFakeClock({ now: NOW })) {
  const lines: Line[] = [];
  const log: Logger = {
    debug() {},
    info: (facts) => void lines.push(["info", facts]),
    warn: (facts) => void lines.push(["warn", facts]),
    error() {},
  };
  return { clock, lines, watch: new ServiceWatch({ type: "resize", clock, log }) };
}

test("an unreachable service is logged once after 10 s, and once when it responds again", () => {
  const { clock, lines, watch } = startWatch();
  for (let second = 0; second < 300; second++) {
    for (let task = 0; task < 10; task++) watch.noteFault("connection was refused");
    const told: Line = ["warn", { type: "resize", reason: "connection was refused" }];
    assert.deepEqual(lines, second < 10 ? [] : [told]);
    clock.advance(1000);
  }

  watch.noteAnswer();
  watch.noteAnswer();

  assert.deepEqual(lines.slice(1), [["info", { type: "resize", away_s: 300 }]]);
});

test("a service that responds within 10 s each time is not logged", () => {
  const { clock, lines, watch } = startWatch();
  for (let i = 0; i < 100; i++) {
    watch.noteFault("it answered 503");
    clock.advance(9999);
    watch.noteFault("it answered 503");
    watch.noteAnswer();
  }
  assert.deepEqual(lines, []);
});

test("a run reports its requests to the watch, without URL and headers", async (t) => {
  const { receiver, clock, runner } = await startService(t, { kind: "status", status: 503 });
  const { lines, watch } = startWatch(clock);
  const running = runOnce(runner({ watch, headers: { "x-key": "hunter2" } }));
  let waitedMs = 0;
  while (waitedMs < 10_000) waitedMs += await passWait(clock);
  await clock.whenPending(2);
  receiver.answer({ kind: "status", status: 200 });
  waitedMs += await passWait(clock);

  assert.equal((await running).kind, "completed");
  const [[, facts], ...others] = lines as [Line, ...Line[]];
  assert.match(String(facts["reason"]), /503/);
  assert.deepEqual(others, [["info", { type: "resize", away_s: waitedMs / 1000 }]]);
});

test("a service that accepts requests and never responds is logged", async (t) => {
  const { receiver, clock, runner } = await startService(t, { kind: "hang" });
  const { lines, watch } = startWatch(clock);
  const hung = runner({ watch });
  for (let run = 0; run < 2; run++) {
    const running = runOnce(hung);
    await receiver.next();
    clock.advance(TIMEOUT_MS);
    assert.equal((await running).kind, "timed_out");
  }
  assert.deepEqual(
    lines.map(([level, { type }]) => [level, type]),
    [["warn", "resize"]],
  );
});
