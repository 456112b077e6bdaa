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
};

/** Everything that a receiver got from one run, and the keys and ids of it. */
async function run(t: TestContext, receiver: Receiver): Promise<readonly string[]> {
  const before = receiver.requests.length;
  const { ask, post, ready, program } = await startDev(t, "--seed", "5");
  const account = await ask("POST /dev/accounts", {});
  await ask("PUT /dev/faults", FAULTS);
  const tasks = Array.from({ length: TASKS }, (_, i) => {
    return { input: i, tag: `${i}`, postback_url: receiver.url(`/${i}`) };
  });
  const ids = await post(...tasks.slice(0, TASKS / 2));
  const more = await post(...tasks.slice(TASKS / 2));
  await ask("POST /dev/clock/advance", { until: "idle" });
  await program.stop();
  const { key, webhook_secret: secret } = account;
  const sent = receiver.requests.slice(before).map(({ url, headers, rawBody }) => {
    return `${url} ${JSON.stringify(headers)} ${rawBody.toString()}`;
  });
  const made = [ready.key, ready.webhook_secret, key, secret, ...ids, ...more];
  return [...made.map(String), ...sent];
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

  assert.ok(one.length > TASKS * 2, `only ${one.length} of them`);
  for (const [i, text] of one.entries())
    assert.equal(two[i]?.slice(0, 400), text.slice(0, 400), `${i}`);
  assert.equal(two.length, one.length);
});
