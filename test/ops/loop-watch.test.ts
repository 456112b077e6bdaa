import assert from "node:assert/strict";
import { test } from "node:test";

import type { LogFacts, Logger } from "../../src/domain/log.ts";
import { LoopWatch } from "../../src/ops/meter.ts";

/** A watch that runs when the test lets time pass. */
function startWatch() {
  let time = 5000;
  const lines: (readonly [LogFacts, string])[] = [];
  const none = (): void => assert.fail("it only warns");
  const warn: Logger["warn"] = (facts, message) => void lines.push([facts, message]);
  const log: Logger = { debug: none, info: none, error: none, warn };
  const watch = new LoopWatch({ now: () => time, log });
  const after = (ms: number, times = 1): void => {
    for (let i = 0; i < times; i++) {
      time += ms;
      watch.look();
    }
  };
  return { watch, after, lines };
}

test("an event loop without delay logs nothing", () => {
  const { watch, after, lines } = startWatch();
  assert.deepEqual(watch.delay(), { p99Ms: 0, worstMs: 0 });
  after(100, 1300);
  after(90);
  assert.deepEqual(watch.delay(), { p99Ms: 0, worstMs: 0 });
  assert.deepEqual(lines, []);
});

test("a minute with delays over 200 ms is logged once, with the longest and the number", () => {
  const { after, lines } = startWatch();
  after(300);
  assert.deepEqual(lines, []);
  after(301);
  after(2100);
  assert.deepEqual(lines, []);
  after(100, 1200);
  assert.deepEqual(lines, [
    [{ longest_ms: 2000, times: 2 }, "the event loop was blocked for more than 200 ms"],
  ]);
});

test("the delay covers the last minute, weighted by time", () => {
  const { watch, after } = startWatch();
  after(100, 586);
  // A request during the delay waits for 600 ms at most.
  after(700, 2);
  assert.deepEqual(watch.delay(), { p99Ms: 300, worstMs: 600 });
  after(100, 585);
  assert.equal(watch.delay().worstMs, 600);
  after(100, 20);
  assert.deepEqual(watch.delay(), { p99Ms: 0, worstMs: 0 });
});

test("a delay of more than a minute fills the last minute", () => {
  const { watch, after } = startWatch();
  after(100, 600);
  after(100 + 120_000);
  const { p99Ms, worstMs } = watch.delay();
  assert.equal(worstMs, 120_000);
  assert.ok(p99Ms > 119_000);
});
