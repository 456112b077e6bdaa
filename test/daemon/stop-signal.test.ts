import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { test } from "node:test";

import { watchSignals } from "../../src/daemon/stop-signal.ts";
import { createLogger } from "../../src/log.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

function setUp({
  reload = null,
  ...more
}: { readonly reload?: (() => void) | null; readonly stopMsMax?: number } = {}) {
  const source = new EventEmitter();
  const clock = createFakeClock({ now: 0 });
  const lines: string[] = [];
  const log = createLogger({ level: "info", format: "json", write: (line) => lines.push(line) });
  const exits: number[] = [];
  const exit = (code: number): void => void exits.push(code);
  const stop = watchSignals({ source, clock, log, exit, reload, ...more });
  return { source, clock, lines, exits, stop };
}

for (const signal of ["SIGTERM", "SIGINT"]) {
  test(`the first ${signal} requests a stop`, async () => {
    const { source, exits, stop } = setUp();
    assert.equal(stop.isAsked, false);

    source.emit(signal);

    assert.equal(stop.isAsked, true);
    await stop.asked;
    assert.deepEqual(exits, []);
  });
}

test("a stop of more than 24.5 s exits with 1 and is logged", () => {
  const { source, clock, lines, exits } = setUp();
  source.emit("SIGTERM");

  clock.advance(24_499);
  assert.deepEqual(exits, []);
  clock.advance(1);

  assert.deepEqual(exits, [1]);
  assert.match(lines.at(-1) ?? "", /"level":"error".*not stopped after 24500 ms/);
});

test("stopMsMax limits the stop", () => {
  const { source, clock, exits } = setUp({ stopMsMax: 36_000 });
  source.emit("SIGTERM");

  clock.advance(35_999);
  assert.deepEqual(exits, []);
  clock.advance(1);

  assert.deepEqual(exits, [1]);
});

test("a second signal exits immediately with 128 and its number", () => {
  for (const [second, code] of [
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const) {
    const { source, clock, exits } = setUp();
    source.emit("SIGTERM");

    clock.advance(500);
    source.emit(second);

    assert.deepEqual(exits, [code]);
  }
});

test("one Ctrl-C that arrives twice, as under npm, is one signal", () => {
  const { source, clock, exits } = setUp();
  source.emit("SIGINT");

  clock.advance(499);
  source.emit("SIGINT");
  assert.deepEqual(exits, []);
  source.emit("SIGTERM");

  assert.deepEqual(exits, [143]);
});

test("goes on after SIGHUP and says that nothing was reloaded", () => {
  const { source, lines, exits, stop } = setUp();

  source.emit("SIGHUP");

  assert.equal(stop.isAsked, false);
  assert.deepEqual(exits, []);
  assert.match(lines.join(""), /nothing is reloaded/);
});

test("reloads at every SIGHUP where something can be reloaded, also while it stops", () => {
  let reloads = 0;
  const { source, lines, exits, stop } = setUp({ reload: () => void reloads++ });

  source.emit("SIGHUP");
  source.emit("SIGHUP");
  assert.equal(reloads, 2);
  assert.equal(stop.isAsked, false);
  source.emit("SIGTERM");
  source.emit("SIGHUP");

  assert.equal(reloads, 3);
  assert.deepEqual(exits, []);
  assert.doesNotMatch(lines.join(""), /nothing is reloaded/);
});
