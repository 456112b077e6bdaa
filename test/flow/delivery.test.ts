import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";

import { startTestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { openPlace } from "./place.ts";
import { shownDelivery } from "./shown-delivery.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const MINUTE = 60_000;
// A tick comes each second: a due attempt is sent at the next tick.
const TICK = 1000;

test("a large postback, which another thread makes, is the body of task_get at every attempt", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 500 } });
  const { post, call, daemon, account } = await startTestDaemon(t, { clock });
  const input = "\u00e9\u{1f600}x".repeat(40_000);
  const posted = await post({ input, postback_url: receiver.url("/") });
  await daemon.idle();
  receiver.answer({ kind: "status", status: 204 });
  clock.advance(MINUTE + TICK);
  await daemon.idle();

  const got = await call(`/v1/tasks/task_get/${posted.tasks[0]?.id}`);
  const body = Buffer.from(await got.arrayBuffer());
  const signature = `sha256=${createHmac("sha256", account.secret).update(body).digest("hex")}`;
  assert.equal(receiver.requests.length, 2);
  for (const [index, { rawBody, headers }] of receiver.requests.entries()) {
    // Without `equal`, whose message would print both.
    assert(rawBody.equals(body));
    assert.equal(headers["content-length"], String(body.length));
    assert.equal(headers["x-attempt"], String(index + 1));
    assert.equal(headers["x-signature"], signature);
  }
});

test("an attempt that a stop interrupts is sent again immediately and uses no retry", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const receiver = await startReceiver(t);
  receiver.answerNext({ kind: "hang" });
  const toml = '[webhooks]\nallow = ["127.0.0.1"]\ntimeout = "60s"\nretry_after = []\n';
  const { daemon, folder, account, ...first } = await startTestDaemon(t, { clock, toml });
  const posted = await first.post({ postback_url: receiver.url() });
  await receiver.waitFor(1);
  const stopped = daemon.stop();
  clock.advance(18_000);
  await stopped;

  const again = await startTestDaemon(t, { clock, folder, account, toml });
  await again.daemon.idle();

  const { attempts } = await shownDelivery(again.call, posted.tasks[0]?.id ?? "");
  assert.deepEqual(
    attempts.map(({ outcome, number }) => [outcome, number]),
    [
      ["interrupted", 1],
      ["delivered", 2],
    ],
  );
  assert.equal(receiver.requests[1]?.headers["x-attempt"], "2");
  assert.equal((await again.ready()).tasks_count, 1);
});

test("an attempt that kill -9 interrupts is sent again with the next X-Attempt and uses no retry", async (t) => {
  const receiver = await startReceiver(t);
  receiver.answerNext({ kind: "hang" }, { kind: "hang" }, { kind: "status", status: 500 });
  const toml = '[webhooks]\nallow = ["127.0.0.1"]\nretry_after = ["1h"]\n';
  const place = await openPlace(t, toml);
  let { kill, client } = await place.start();
  const id = await client.post({ postback_url: receiver.url() });
  for (let kills = 1; kills <= 2; kills++) {
    await receiver.waitFor(kills);
    await kill();
    ({ kill, client } = await place.start());
  }

  // A receiver has the response before the daemon records it.
  let delivery = await shownDelivery(client.call, id);
  while (delivery.attempts.length < 4) delivery = await shownDelivery(client.call, id);

  const { state, attempts } = delivery;
  assert.equal(state, "scheduled");
  assert.deepEqual(
    attempts.map(({ number, outcome }) => [number, outcome]),
    [
      [1, "interrupted"],
      [2, "interrupted"],
      [3, "failed"],
      [4, null],
    ],
  );
  const sent = receiver.requests.map(({ headers }) => headers["x-attempt"]);
  assert.deepEqual(sent, ["1", "2", "3"]);
  assert.equal(attempts[1]?.dueAt, attempts[0]?.endedAt);
  assert.equal(attempts[3]?.dueAt, (attempts[2]?.endedAt ?? NaN) + 60 * MINUTE);
});
