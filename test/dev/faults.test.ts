import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";

import { type Receiver, startReceiver } from "../helpers/receiver.ts";
import { type ShownBody, startDev } from "./dev-client.ts";

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
