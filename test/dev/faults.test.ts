import assert from "node:assert/strict";
import { test } from "node:test";

import { startReceiver, type Receiver } from "../helpers/receiver.ts";
import { startDev, type ShownBody } from "./dev-client.ts";

const numbers = ({ requests }: Receiver) => requests.map(({ headers }) => headers["x-attempt"]);
const outcomes = ({ deliveries }: ShownBody) =>
  deliveries?.[0]?.attempts.map(({ outcome }) => outcome);

test("shares beyond 0 and 1 and unknown faults are refused; a missing share is 0", async (t) => {
  const { ask, call } = await startDev(t);

  for (const body of [{ duplicate: 1.1 }, { reorder: -1 }, { delay_ms: 0.5 }, { drop: 1 }])
    assert.equal((await call("PUT /dev/faults", body)).code, 40501);
  await ask("PUT /dev/faults", { duplicate: 0.5, delay_ms: 5 });
  assert.equal((await ask("GET /dev/faults")).duplicate, 0.5);
  await ask("PUT /dev/faults", {});
  assert.equal((await ask("GET /dev/faults")).duplicate, 0);
});

test("a duplicate is sent twice within one attempt", async (t) => {
  const receiver = await startReceiver(t);
  const { ask, post } = await startDev(t);
  await ask("PUT /dev/faults", { duplicate: 1 });

  const [id = ""] = await post({ postback_url: receiver.url("/a") });
  const shown = await ask(`GET /dev/wait/${id}?for=delivered`);

  assert.deepEqual([numbers(receiver), outcomes(shown)], [["1", "1"], ["delivered"]]);
});

test("a dropped response times out, and the webhook is sent again later", async (t) => {
  const receiver = await startReceiver(t);
  const { advance, ask, post } = await startDev(t);
  await ask("PUT /dev/faults", { drop_answer: 1 });
  const [id = ""] = await post({ postback_url: receiver.url("/a") });
  await receiver.waitFor(1);
  await advance("1ms");
  await ask("PUT /dev/faults", {});

  await ask("POST /dev/clock/advance", { until: "idle" });

  assert.deepEqual(outcomes(await ask(`GET /dev/wait/${id}`)), ["timed_out", "delivered"]);
  assert.equal(receiver.requests.length, 2);
});

test("an interrupted attempt is sent again immediately, and not interrupted again", async (t) => {
  const receiver = await startReceiver(t);
  const { ask, post } = await startDev(t);
  await ask("PUT /dev/faults", { crash_during_attempt: 1 });

  const [id = ""] = await post({ postback_url: receiver.url("/a") });
  const shown = await ask(`GET /dev/wait/${id}?for=delivered`);

  assert.deepEqual(outcomes(shown), ["interrupted", "delivered"]);
  assert.deepEqual(numbers(receiver), ["1", "2"]);
});

for (const [reorder, count] of [
  [0.5, 20],
  [1, 5],
] as const) {
  test(`with reorder ${reorder} attempts arrive behind later ones, and each arrives once`, async (t) => {
    const receiver = await startReceiver(t);
    const { ask, post } = await startDev(t, { seed: 5 });
    await ask("PUT /dev/faults", { reorder });
    const paths = Array.from({ length: count }, (_, i) => `/${i + 1}`);

    await post(...paths.map((path) => ({ postback_url: receiver.url(path) })));
    await receiver.waitFor(count);

    const came = receiver.requests.map(({ url }) => url);
    assert.notDeepEqual(came, paths);
    assert.deepEqual(came.toSorted(), paths.toSorted());
    const isSwapped = (one: string, next: string) => came.indexOf(next) < came.indexOf(one);
    if (reorder === 1) assert.ok(isSwapped("/1", "/2") && isSwapped("/3", "/4"), came.join(" "));
  });
}

test("a reordered attempt without a later one is delivered", async (t) => {
  const receiver = await startReceiver(t);
  const { ask, post } = await startDev(t);
  await ask("PUT /dev/faults", { reorder: 1 });

  const [id = ""] = await post({ postback_url: receiver.url("/a") });

  assert.equal((await ask(`GET /dev/wait/${id}?for=delivered`)).task?.id, id);
});
