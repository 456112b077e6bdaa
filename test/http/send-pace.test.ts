import assert from "node:assert/strict";
import { test } from "node:test";

import { BYTES_PER_SECOND_MIN } from "../../src/http/admission/limits.ts";
import { SendPace } from "../../src/http/server/closing.ts";

const TIMEOUT_MS = 30_000;
const LOOK_MS = 500;
const ANSWER = 10_000_000;

/** When a client is cut off, in ms, by how much the kernel has taken by then; null: not within ten minutes. */
function cutAt(takenBy: (ms: number) => number): number | null {
  const pace = new SendPace(TIMEOUT_MS);
  const client = {};
  for (let ms = 0; ms <= 600_000; ms += LOOK_MS) {
    const taken = Math.min(takenBy(ms), ANSWER);
    if (pace.isTooSlow(client, { taken, unsent: ANSWER - taken }, ms)) return ms;
  }
  return null;
}

test("who reads nothing is cut off when the send timeout is over, and not before", () => {
  assert.equal(
    cutAt(() => 0),
    TIMEOUT_MS,
  );
  assert.equal(
    cutAt(() => 600_000),
    TIMEOUT_MS,
  );
});

test("the time begins anew with everything that is read", () => {
  const readAt = 20_000;
  assert.equal(
    cutAt((ms) => (ms < readAt ? 0 : 1_000_000)),
    readAt + TIMEOUT_MS,
  );
});

test("who reads slowly but steadily is kept, and who reads a byte now and then is not", () => {
  const steady = (ms: number) => (ms / 1000) * BYTES_PER_SECOND_MIN;
  assert.equal(cutAt(steady), null);
  // In pieces, as the kernel makes room.
  assert.equal(
    cutAt((ms) => Math.floor(ms / 20_000) * 64 * 1024),
    null,
  );
  assert.equal(
    cutAt((ms) => steady(ms) * 0.9),
    TIMEOUT_MS,
  );
  assert.equal(
    cutAt((ms) => Math.floor(ms / 20_000)),
    TIMEOUT_MS,
  );
});

test("who has read all of one answer is not held to account for it in the next", () => {
  const pace = new SendPace(TIMEOUT_MS);
  const client = {};
  assert.ok(!pace.isTooSlow(client, { taken: 10, unsent: 5 }, 0));
  assert.ok(!pace.isTooSlow(client, { taken: 15, unsent: 0 }, 20_000));
  assert.ok(!pace.isTooSlow(client, { taken: 15, unsent: 5 }, 29_000));
  assert.ok(!pace.isTooSlow(client, { taken: 15, unsent: 5 }, 58_500));
  assert.ok(pace.isTooSlow(client, { taken: 15, unsent: 5 }, 59_000));
});
