import assert from "node:assert/strict";
import { test } from "node:test";

import type { LogFacts, Logger } from "../../src/domain/log.ts";
import { PlaceShortage } from "../../src/http/admission/connections.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

test("that places run out is told at once, then once a minute with how often it was since", () => {
  const lines: LogFacts[] = [];
  const warn = (facts: LogFacts): void => void lines.push(facts);
  const log: Logger = { debug() {}, info() {}, warn, error() {} };
  const clock = createFakeClock({ now: 0 });
  const shortage = new PlaceShortage({ clock, log });
  for (let second = 0; second < 61; second++) {
    shortage.note("closed_others");
    if (second % 2 === 0) shortage.note("refused");
    if (second === 30) shortage.note("over_reserve");
    clock.advance(1000);
  }

  assert.deepEqual(lines, [
    { closed_others: 1, over_reserve: 0, refused: 0 },
    { closed_others: 60, over_reserve: 1, refused: 30 },
  ]);
});
