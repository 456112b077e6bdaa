import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { startReceiver, type Receiver } from "../helpers/receiver.ts";
import { startDev } from "./dev-client.ts";

const TASKS = 200;
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
  /** Everything that the receiver got, in its order, whole. */
  readonly sent: readonly string[];
  /** What the advance told, in its order. */
  readonly events: readonly object[];
}

async function run(t: TestContext, receiver: Receiver): Promise<Run> {
  const before = receiver.requests.length;
  const { ask, post, ready, program } = await startDev(t, "--seed", "5");
  const { key, webhook_secret: secret } = await ask("POST /dev/accounts", {});
  await ask("PUT /dev/faults", FAULTS);
  const tasks = Array.from({ length: TASKS }, (_, i) => {
    return { input: i, tag: `${i}`, postback_url: receiver.url(`/${i}`) };
  });
  const ids = await post(...tasks.slice(0, TASKS / 2));
  const more = await post(...tasks.slice(TASKS / 2));
  const { events = [] } = await ask("POST /dev/clock/advance", { until: "idle" });
  await program.stop();
  const sent = receiver.requests.slice(before).map(({ method, url, rawHeaders, rawBody }) => {
    return [`${method} ${url}`, ...rawHeaders, rawBody.toString("base64")].join("\n");
  });
  const made = [ready.key, ready.webhook_secret, key, secret, ...ids, ...more];
  return { made: made.map(String), sent, events };
}

test("two runs with one seed and a clock that stands still are the same to the byte", async (t) => {
  // One for both, because its port is part of what is signed.
  const receiver = await startReceiver(t, {
    reply: ({ url, headers }) => {
      const isBad = url.endsWith("7") && headers["x-attempt"] === "1";
      return { kind: "status", status: isBad ? 500 : 204 };
    },
  });
  const [one, two] = [await run(t, receiver), await run(t, receiver)];

  assert.ok(one.events.length > TASKS * 3, `only ${one.events.length} events`);
  assert.ok(one.sent.length > TASKS * 1.5, `only ${one.sent.length} requests`);
  const outcomes = new Set(
    one.events.map((event) => JSON.stringify(event).match(/"outcome":"\w+"/)?.[0]),
  );
  for (const outcome of ["delivered", "failed", "timed_out", "interrupted"]) {
    assert.ok(outcomes.has(`"outcome":"${outcome}"`), `no attempt was ${outcome}`);
  }
  assert.deepEqual(two.made, one.made);
  // One by one, so that a difference is shown where it is.
  for (const [i, text] of one.sent.entries()) assert.equal(two.sent[i], text, `request ${i}`);
  assert.equal(two.sent.length, one.sent.length);
  for (const [i, event] of one.events.entries())
    assert.deepEqual(two.events[i], event, `event ${i}`);
  assert.equal(two.events.length, one.events.length);
});

/**
 * The events of two advances, with three tasks posted before each. `isSlow` lets both webhooks of a task arrive before the
 * next request.
 */
async function eventsOf(t: TestContext, receiver: Receiver, isSlow: boolean): Promise<object[]> {
  const { ask, post, program } = await startDev(t, "--seed", "5");
  const advances: object[] = [];
  let requests = receiver.requests.length;
  for (const by of ["1ms", "2m"]) {
    for (const path of ["/a", "/b7", "/c"]) {
      const url = receiver.url(path);
      await post({ postback_url: url, pingback_url: url });
      requests += 2;
      if (isSlow) await receiver.waitFor(requests);
    }
    const { events = [] } = await ask("POST /dev/clock/advance", { by });
    advances.push(events);
    requests = receiver.requests.length;
  }
  await program.stop();
  return advances;
}

test("an advance returns the events since the previous one, however fast the machine is", async (t) => {
  const receiver = await startReceiver(t, {
    reply: ({ url }) => ({ kind: "status", status: url.endsWith("7") ? 500 : 204 }),
  });
  const [first = [], second = []] = await eventsOf(t, receiver, true);

  const again = await eventsOf(t, receiver, false);

  // A start, an end and two attempts of each; the second advance has the retries of two tasks as well.
  assert.deepEqual(
    [first, second].map((events) => Object.keys(events).length),
    [12, 16],
  );
  assert.deepEqual(again, [first, second]);
});
