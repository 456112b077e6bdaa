import assert from "node:assert/strict";
import { test } from "node:test";

import type { LogFacts, Logger } from "../../src/domain/log.ts";
import { ServiceWatch } from "../../src/run/http.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { NOW, passWait, runOnce, startService, TIMEOUT_MS } from "./http-run.ts";

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
