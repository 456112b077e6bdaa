import assert from "node:assert/strict";
import { test } from "node:test";

import { startReceiver, type Receiver } from "../helpers/receiver.ts";
import { startDev } from "./dev-client.ts";

const attempts = ({ requests }: Receiver): readonly (readonly [string, string])[] =>
  requests.map(({ url, headers }) => [url, headers["x-attempt"] ?? ""]);

test("shares beyond 0 and 1 and unknown faults are refused; what is left out is none", async (t) => {
  const { ask, call } = await startDev(t);

  for (const body of [{ duplicate: 1.1 }, { reorder: -1 }, { delay_ms: 0.5 }, { drop: 1 }]) {
    assert.equal((await call("PUT /dev/faults", body)).code, 40501);
  }
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
  const { deliveries } = await ask(`GET /dev/wait/${id}?for=delivered`);

  assert.deepEqual(attempts(receiver), [
    ["/a", "1"],
    ["/a", "1"],
  ]);
  assert.equal(deliveries?.[0]?.attempts.length, 1);
});

test("an answer that is dropped is a timeout to the daemon, which sends again later", async (t) => {
  const receiver = await startReceiver(t);
  const { ask, post } = await startDev(t);
  await ask("PUT /dev/faults", { drop_answer: 1 });
  const [id = ""] = await post({ postback_url: receiver.url("/a") });
  await receiver.waitFor(1);
  await ask("POST /dev/clock/advance", { by: "1ms" });
  await ask("PUT /dev/faults", {});

  await ask("POST /dev/clock/advance", { until: "idle" });

  const { deliveries } = await ask(`GET /dev/wait/${id}`);
  const outcomes = deliveries?.[0]?.attempts.map(({ outcome }) => outcome);
  assert.deepEqual(outcomes, ["timed_out", "delivered"]);
  assert.equal(receiver.requests.length, 2);
});

test("an attempt that is interrupted is sent again at once, and not interrupted again", async (t) => {
  const receiver = await startReceiver(t);
  const { ask, post } = await startDev(t);
  await ask("PUT /dev/faults", { crash_during_attempt: 1 });

  const [id = ""] = await post({ postback_url: receiver.url("/a") });
  const { deliveries } = await ask(`GET /dev/wait/${id}?for=delivered`);

  const outcomes = deliveries?.[0]?.attempts.map(({ outcome }) => outcome);
  assert.deepEqual(outcomes, ["interrupted", "delivered"]);
  assert.deepEqual(
    attempts(receiver).map(([, number]) => number),
    ["1", "2"],
  );
});

test("a delay is of the daemon's clock", async (t) => {
  const receiver = await startReceiver(t);
  const { ask, post } = await startDev(t);
  await ask("PUT /dev/faults", { delay_ms: 2000 });
  const [id = ""] = await post({ postback_url: receiver.url("/a") });

  await ask("POST /dev/clock/advance", { by: "1999ms" });
  assert.equal(receiver.requests.length, 0);
  await ask("POST /dev/clock/advance", { by: "1ms" });

  assert.equal(receiver.requests.length, 1);
  assert.equal((await ask(`GET /dev/wait/${id}?for=delivered`)).task?.id, id);
});

test("reordered attempts come behind later ones, and each comes once", async (t) => {
  const receiver = await startReceiver(t);
  const { ask, post } = await startDev(t, "--seed", "5");
  await ask("PUT /dev/faults", { reorder: 0.5 });
  const paths = Array.from({ length: 20 }, (_, i) => `/${i}`);

  await post(...paths.map((path) => ({ postback_url: receiver.url(path) })));
  await receiver.waitFor(20);

  const came = receiver.requests.map(({ url }) => url);
  assert.notDeepEqual(came, paths);
  assert.deepEqual(came.toSorted(), paths.toSorted());
});

test("with a share of 1 every other attempt comes behind the next one", async (t) => {
  const receiver = await startReceiver(t);
  const { ask, post } = await startDev(t, "--seed", "5");
  await ask("PUT /dev/faults", { reorder: 1 });
  const paths = ["/1", "/2", "/3", "/4", "/5"];

  await post(...paths.map((path) => ({ postback_url: receiver.url(path) })));
  await receiver.waitFor(paths.length);

  const came = receiver.requests.map(({ url }) => url);
  assert.deepEqual(came.toSorted(), paths);
  const isSwapped = (one: string, next: string) => came.indexOf(next) < came.indexOf(one);
  assert.ok(isSwapped("/1", "/2") && isSwapped("/3", "/4"), came.join(" "));
});

test("the last of all is not held back for ever", async (t) => {
  const receiver = await startReceiver(t);
  const { ask, post } = await startDev(t);
  await ask("PUT /dev/faults", { reorder: 1 });

  const [id = ""] = await post({ postback_url: receiver.url("/a") });

  assert.equal((await ask(`GET /dev/wait/${id}?for=delivered`)).task?.id, id);
});
