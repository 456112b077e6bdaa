import assert from "node:assert/strict";
import { test } from "node:test";

import { serviceWaitMs } from "../../src/deliver/service-retry.ts";
import { startReceiver } from "../helpers/receiver.ts";
import type { Reply } from "../helpers/receiver.ts";
import { completed, failureOf, NOW, passWait, startService, TIMEOUT_MS } from "./http-run.ts";

const DONE: Reply = { kind: "status", status: 200, body: "1" };

function busy(status: number, retryAfter?: string): Reply {
  const headers = retryAfter === undefined ? {} : { "retry-after": retryAfter };
  return { kind: "status", status, headers, body: "not now" };
}

for (const status of [429, 502, 503, 504]) {
  test(`a ${status} is asked again, with the same task and key, until there is an answer`, async (t) => {
    const { receiver, clock, run } = await startService(t, DONE);
    receiver.answerNext(busy(status), busy(status));

    const outcome = run({ id: "t-7", inputText: "[1.0]" });
    assert.equal(await passWait(clock), 250);
    assert.equal(await passWait(clock), 500);

    assert.deepEqual(await outcome, completed("1"));
    assert.deepEqual(clock.pending(), []);
    const bodies = new Set(receiver.requests.map(({ rawBody }) => rawBody.toString()));
    const keys = new Set(receiver.requests.map(({ headers }) => headers["idempotency-key"]));
    assert.deepEqual([receiver.requests.length, bodies.size, [...keys]], [3, 1, ["t-7"]]);
  });
}

test("a service that is down is asked again with doubling waits, until the timeout: 50401", async (t) => {
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
  const failure = failureOf(await outcome, "timed_out");
  const why = "connection was refused";
  assert.equal(failure.message, `The service gave no result within the timeout of 100 s: ${why}.`);
  const detail = { attempts: 10, http_status: null, error: why, response_excerpt: null };
  assert.deepEqual(failure.detail, detail);
  assert.equal(clock.now(), NOW + 100_000);
  assert.deepEqual(clock.pending(), []);
});

test("a service that comes up within the timeout is found", async (t) => {
  const { receiver, clock, run } = await startService(t);
  const { port } = receiver;
  await receiver.close();

  const outcome = run();
  assert.equal(await passWait(clock), 250);
  await clock.whenPending(2);
  const back = await startReceiver(t, { port, reply: DONE });
  await passWait(clock);

  assert.deepEqual(await outcome, completed("1"));
  assert.equal(back.requests.length, 1);
});

test("an answer that breaks off, or never comes, is asked for again", async (t) => {
  const { receiver, clock, run } = await startService(t, DONE);
  const head = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[1]";
  const broken: readonly Reply[] = [
    { kind: "close" },
    { kind: "reset" },
    { kind: "raw", bytes: head, end: true },
    { kind: "raw", bytes: head, end: "reset" },
    { kind: "raw", bytes: "HTTP/1.1 20", end: true },
  ];
  receiver.answerNext(...broken);

  const outcome = run();
  for (const _reply of broken) await passWait(clock);

  assert.deepEqual(await outcome, completed("1"));
  assert.equal(receiver.requests.length, broken.length + 1);
});

test("a service that never answers is 50401 at exactly the timeout, and sees the connection close", async (t) => {
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
  assert.equal(failure.message, "The service gave no result within the timeout of 60 s.");
  const detail = { attempts: 1, http_status: null, error: null, response_excerpt: null };
  assert.deepEqual(failure.detail, detail);
  await receiver.whenDisconnected();
  assert.deepEqual(clock.pending(), []);
});

test("a body that drips past the timeout is 50401", async (t) => {
  const drip = { kind: "drip", head: "HTTP/1.1 200 OK\r\n\r\n[", bytes: "1,", everyMs: 1 } as const;
  const { receiver, clock, run } = await startService(t, drip);

  const outcome = run();
  await receiver.next();
  clock.advance(TIMEOUT_MS);

  assert.equal(failureOf(await outcome, "timed_out").detail["http_status"], null);
  await receiver.whenDisconnected();
});

test("50401 tells the last answer there was", async (t) => {
  const { receiver, clock, run } = await startService(t, { kind: "hang" });
  receiver.answerNext(busy(429), busy(503));

  const outcome = run({ timeoutMs: 1000 });
  assert.deepEqual([await passWait(clock), await passWait(clock)], [250, 500]);
  await receiver.waitFor(3);
  clock.advance(250);

  const { message, detail } = failureOf(await outcome, "timed_out");
  assert.equal(
    message,
    "The service gave no result within the timeout of 1 s; its last answer was 503.",
  );
  const last = { http_status: 503, error: null, response_excerpt: "not now" };
  assert.deepEqual(detail, { attempts: 3, ...last });
});

test("Retry-After says when the service is asked again, and one that says nothing is passed over", async (t) => {
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

test("the wait is Retry-After in seconds or as an HTTP date, or else doubles, with up to half of it off", () => {
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

test("an abort ends a run at every stage, leaves no timer, and the service sees its connection close", async (t) => {
  const { receiver, clock, run } = await startService(t);
  const stages: readonly Reply[] = [
    { kind: "hang" },
    { kind: "raw", bytes: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[1]" },
    { kind: "raw", bytes: "HTTP/1.1 503 \r\nContent-Length: 9\r\n\r\n" },
  ];
  for (const stage of stages) {
    const abort = new AbortController();
    receiver.answerNext(stage);
    const outcome = run({ signal: abort.signal });
    await receiver.next();
    abort.abort();
    assert.deepEqual(await outcome, { kind: "aborted" });
    await receiver.whenDisconnected();
    assert.deepEqual(clock.pending(), []);
  }

  assert.deepEqual(await run({ signal: AbortSignal.abort() }), { kind: "aborted" });
  assert.equal(receiver.requests.length, stages.length);
});

test("an abort ends a wait", async (t) => {
  const { clock, run, receiver } = await startService(t, busy(503, "30"));
  const abort = new AbortController();

  const outcome = run({ signal: abort.signal });
  await clock.whenPending(2);
  abort.abort();

  assert.deepEqual(await outcome, { kind: "aborted" });
  assert.deepEqual(clock.pending(), []);
  assert.equal(receiver.requests.length, 1);
});

test("a run leaves nothing listening on the signal it was given", async (t) => {
  const { run } = await startService(t, DONE);
  const { signal } = new AbortController();
  let listening = 0;
  const add = signal.addEventListener.bind(signal);
  const remove = signal.removeEventListener.bind(signal);
  signal.addEventListener = (...args: Parameters<typeof add>) => {
    listening += 1;
    add(...args);
  };
  signal.removeEventListener = (...args: Parameters<typeof remove>) => {
    listening -= 1;
    remove(...args);
  };

  await run({ signal });
  assert.equal(listening, 0);
});
