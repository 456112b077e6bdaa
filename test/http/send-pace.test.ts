import assert from "node:assert/strict";
import { test } from "node:test";

import { BYTES_PER_SECOND_MIN } from "../../src/http/admission/limits.ts";
import { SendPace } from "../../src/http/server/closing.ts";

const TIMEOUT_MS = 30_000;
const ANSWER = 10_000_000;

/** When a client is cut off, in ms, by the bytes the kernel has taken until then; null: not within ten minutes. */
function cutAt(takenBy: (ms: number) => number): number | null {
  const pace = new SendPace(TIMEOUT_MS);
  const client = {};
  for (let ms = 0; ms <= 600_000; ms += 500) {
    const taken = Math.min(takenBy(ms), ANSWER);
    if (pace.isTooSlow(client, { taken, unsent: ANSWER - taken }, ms)) return ms;
  }
  return null;
}

const steady = (ms: number) => (ms / 1000) * BYTES_PER_SECOND_MIN;

const CLIENTS: readonly (readonly [string, (ms: number) => number, number | null])[] = [
  ["that reads nothing is cut off after the send timeout", () => 0, TIMEOUT_MS],
  ["that reads nothing more is cut off after the send timeout", () => 600_000, TIMEOUT_MS],
  [
    "that stops to read is cut off the send timeout later",
    (ms) => (ms < 20_000 ? 0 : 1_000_000),
    20_000 + TIMEOUT_MS,
  ],
  ["that reads at the least rate is kept", steady, null],
  [
    "that reads at the least rate in large pieces is kept",
    (ms) => Math.floor(ms / 20_000) * 64 * 1024,
    null,
  ],
  ["that reads below the least rate is cut off", (ms) => steady(ms) * 0.9, TIMEOUT_MS],
  ["that reads a byte now and then is cut off", (ms) => Math.floor(ms / 20_000), TIMEOUT_MS],
];

for (const [name, takenBy, cut] of CLIENTS) {
  test(`a client ${name}`, () => assert.equal(cutAt(takenBy), cut));
}

test("the time of a response that was read whole does not count for the next", () => {
  const pace = new SendPace(TIMEOUT_MS);
  const client = {};
  for (const [taken, unsent, ms, isTooSlow] of [
    [10, 5, 0, false],
    [15, 0, 20_000, false],
    [15, 5, 29_000, false],
    [15, 5, 58_500, false],
    [15, 5, 59_000, true],
  ] as const) {
    assert.equal(pace.isTooSlow(client, { taken, unsent }, ms), isTooSlow, `${ms}`);
  }
});
