import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { startReceiver, type Receiver } from "../helpers/receiver.ts";
import { startDev } from "./dev-client.ts";

const TASKS = 80;
const FAULTS = {
  duplicate: 0.2,
  reorder: 0.3,
  drop_answer: 0.2,
  crash_during_attempt: 0.2,
  delay_ms: 250,
};

interface Run {
  /** Keys, secrets and ids. */
  readonly made: readonly string[];
  /** Every request to the receiver, in their order. */
  readonly sent: readonly string[];
  readonly events: readonly object[];
}

async function run(t: TestContext, receiver: Receiver): Promise<Run> {
  const before = receiver.requests.length;
  const { ask, post, ready, own } = await startDev(t, { seed: 5 });
  const { key, webhook_secret: secret } = await ask("POST /dev/accounts", {});
  await ask("PUT /dev/faults", FAULTS);
  const tasks = Array.from({ length: TASKS }, (_, i) => {
    return { input: i, tag: `${i}`, postback_url: receiver.url(`/${i}`) };
  });
  const ids = await post(...tasks.slice(0, TASKS / 2));
  const more = await post(...tasks.slice(TASKS / 2));
  const { events = [] } = await ask("POST /dev/clock/advance", { until: "idle" });
  const sent = receiver.requests.slice(before).map(({ method, url, rawHeaders, rawBody }) => {
    return [`${method} ${url}`, ...rawHeaders, rawBody.toString("base64")].join("\n");
  });
  const made = [ready.key, ready.webhook_secret, own.login, key, secret, ...ids, ...more];
  return { made: made.map(String), sent, events };
}

test("two runs with one seed and a clock that stands still are equal to the byte", async (t) => {
  // The receiver's port is a part of the signed bytes.
  const receiver = await startReceiver(t, {
    reply: ({ url, headers }) => {
      const isBad = url.endsWith("7") && headers["x-attempt"] === "1";
      return { kind: "status", status: isBad ? 500 : 204 };
    },
  });
  const [one, two] = [await run(t, receiver), await run(t, receiver)];

  assert.ok(one.events.length > TASKS * 3, `only ${one.events.length} events`);
  assert.ok(one.sent.length > TASKS * 1.5, `only ${one.sent.length} requests`);
  const text = JSON.stringify(one.events);
  for (const outcome of ["delivered", "failed", "timed_out", "interrupted"])
    assert.ok(text.includes(`"outcome":"${outcome}"`), `no attempt was ${outcome}`);
  assert.deepEqual(two.made, one.made);
  // One by one, so that a failure shows the first difference.
  for (const [i, request] of one.sent.entries()) assert.equal(two.sent[i], request, `request ${i}`);
  for (const [i, event] of one.events.entries())
    assert.deepEqual(two.events[i], event, `event ${i}`);
  assert.deepEqual([two.sent.length, two.events.length], [one.sent.length, one.events.length]);
});

/** The events of two advances, each after three posts. With `isSlow` each post waits for the webhooks before. */
async function eventsOf(t: TestContext, receiver: Receiver, isSlow: boolean): Promise<object[][]> {
  const { advance, post } = await startDev(t, { seed: 5 });
  const advances: object[][] = [];
  let requests = receiver.requests.length;
  for (const by of ["1ms", "2m"]) {
    for (const path of ["/a", "/b7", "/c"]) {
      const url = receiver.url(path);
      await post({ postback_url: url, pingback_url: url });
      requests += 2;
      if (isSlow) await receiver.waitFor(requests);
    }
    advances.push([...(await advance(by))]);
    requests = receiver.requests.length;
  }
  return advances;
}

test("an advance returns the events since the previous advance, at any speed of the machine", async (t) => {
  const receiver = await startReceiver(t, {
    reply: ({ url }) => ({ kind: "status", status: url.endsWith("7") ? 500 : 204 }),
  });
  const slow = await eventsOf(t, receiver, true);
  const fast = await eventsOf(t, receiver, false);

  // A start, an end and two attempts of each task; the second advance also has two retries of two tasks.
  assert.deepEqual(
    slow.map(({ length }) => length),
    [12, 16],
  );
  assert.deepEqual(fast, slow);
});
