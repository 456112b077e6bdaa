import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test, type TestContext } from "node:test";

import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { Delivery } from "../../src/store/store.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";
import { startReceiver, type ReceivedRequest } from "../helpers/receiver.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const MINUTE = 60_000;
// Ticks come by the second, so what is due is sent within the second after.
const TICK = 1000;

function hmac(secret: string, message: string | Buffer): string {
  return `sha256=${createHmac("sha256", secret).update(message).digest("hex")}`;
}

function header(request: ReceivedRequest, name: string): string | undefined {
  return request.headers[name];
}

/** Lets time pass on the virtual clock and everything that it made due come to its end. */
async function pass(daemon: TestDaemon, clock: FakeClock, ms: number): Promise<void> {
  clock.advance(ms);
  await daemon.daemon.idle();
}

/** What the file says of a task's deliveries, through a store of its own. */
async function deliveriesOf(daemon: TestDaemon, id: string): Promise<readonly Delivery[]> {
  const store = await openSqliteStore({ file: daemon.file, writer: "inline", backlogMax: 1 });
  try {
    const deliveries = await store.listDeliveries({ accountId: 1, id });
    assert.ok(deliveries);
    return deliveries;
  } finally {
    await store.close();
  }
}

async function startPair(t: TestContext) {
  const clock = createFakeClock({ now: NOW });
  const receiver = await startReceiver(t);
  const daemon = await startTestDaemon(t, { clock });
  return { clock, receiver, daemon };
}

test("a postback is the body of task_get, byte for byte, signed with the account's secret", async (t) => {
  const { receiver, daemon } = await startPair(t);
  const input = '{"n":12345678901234567890,"x":1.50,"s":"\\u00e9 \\ud83d\\ude00"}';
  const posted = await daemon.post(
    `{"input":${input},"tag":"a b","postback_url":"${receiver.url("/hook?x=1")}"}`,
  );
  await daemon.daemon.idle();

  const [request] = receiver.requests;
  assert.ok(request);
  const id = posted.tasks[0]?.id ?? "";
  const got = await daemon.call(`/v1/tasks/task_get/${id}`);
  assert.equal(request.rawBody.toString(), await got.text());
  assert.match(request.rawBody.toString(), /"result":\{"n":12345678901234567890,"x":1\.50,/);
  assert.equal(request.method, "POST");
  assert.equal(request.url, "/hook?x=1");
  assert.equal(header(request, "content-type"), "application/json");
  assert.equal(header(request, "user-agent"), "postbackd-webhooks/1");
  assert.equal(header(request, "x-attempt"), "1");
  assert.equal(header(request, "x-signature"), hmac(daemon.account.secret, request.rawBody));
  assert.equal(header(request, "webhook-id"), `${id}-postback`);
});

test("a large postback, which another thread makes, is the body of task_get too, at every attempt", async (t) => {
  const { clock, receiver, daemon } = await startPair(t);
  receiver.answer({ kind: "status", status: 500 });
  const input = "\u00e9\u{1f600}x".repeat(40_000);
  const posted = await daemon.post({ input, postback_url: receiver.url("/") });
  await daemon.daemon.idle();
  receiver.answer({ kind: "status", status: 204 });
  await pass(daemon, clock, MINUTE + TICK);

  const got = await daemon.call(`/v1/tasks/task_get/${posted.tasks[0]?.id}`);
  const body = Buffer.from(await got.arrayBuffer());
  assert.equal(receiver.requests.length, 2);
  for (const [index, request] of receiver.requests.entries()) {
    // Compared here, because a failure would print them.
    assert(request.rawBody.equals(body));
    assert.equal(header(request, "content-length"), String(body.length));
    assert.equal(header(request, "x-attempt"), String(index + 1));
    assert.equal(header(request, "x-signature"), hmac(daemon.account.secret, body));
  }
});

test("a pingback is a GET of the substituted URL, and the URL as requested is what is signed", async (t) => {
  const { receiver, daemon } = await startPair(t);
  const template = receiver.url("/p/$id?t=$tag&raw=%24id");
  const posted = await daemon.post({ tag: "ü/&", pingback_url: template });
  await daemon.daemon.idle();

  const [request] = receiver.requests;
  assert.ok(request);
  const id = posted.tasks[0]?.id ?? "";
  assert.equal(request.method, "GET");
  assert.equal(request.url, `/p/${id}?t=%C3%BC%2F%26&raw=%24id`);
  const url = receiver.url(request.url);
  assert.equal(header(request, "x-signature"), hmac(daemon.account.secret, url));
  assert.equal(request.rawBody.length, 0);
  assert.equal(posted.tasks[0]?.data["pingback_url"], template);
});

test("a failed delivery is retried 1, 5 and 15 minutes after each failure and then given up", async (t) => {
  const { clock, receiver, daemon } = await startPair(t);
  receiver.answer({ kind: "status", status: 500 });
  const posted = await daemon.post({ postback_url: receiver.url() });
  const id = posted.tasks[0]?.id ?? "";
  await daemon.daemon.idle();
  assert.equal(receiver.requests.length, 1);

  for (const [i, wait] of [1, 5, 15].entries()) {
    await pass(daemon, clock, wait * MINUTE - TICK);
    assert.equal(receiver.requests.length, i + 1, `nothing is sent before ${wait} minutes`);
    await pass(daemon, clock, 2 * TICK);
    assert.equal(receiver.requests.length, i + 2, `a retry is sent after ${wait} minutes`);
    assert.equal(header(receiver.requests[i + 1] ?? assert.fail(), "x-attempt"), String(i + 2));
  }
  await pass(daemon, clock, 60 * MINUTE);

  assert.equal(receiver.requests.length, 4);
  const [delivery] = await deliveriesOf(daemon, id);
  assert.equal(delivery?.state, "given_up");
  assert.deepEqual(
    delivery?.attempts.map(({ outcome, httpStatus }) => [outcome, httpStatus]),
    Array(4).fill(["failed", 500]),
  );
  assert.deepEqual(
    (await daemon.ready()).tasks.map((task) => task.id),
    [id],
  );
});

test("a retry that is answered with 2xx ends the series", async (t) => {
  const { clock, receiver, daemon } = await startPair(t);
  receiver.answerNext({ kind: "status", status: 302 }, { kind: "status", status: 201 });
  const posted = await daemon.post({ postback_url: receiver.url() });
  await daemon.daemon.idle();
  await pass(daemon, clock, MINUTE + TICK);
  await pass(daemon, clock, 60 * MINUTE);

  assert.equal(receiver.requests.length, 2);
  const [delivery] = await deliveriesOf(daemon, posted.tasks[0]?.id ?? "");
  assert.equal(delivery?.state, "delivered");
});

test("a receiver that does not answer within 10 s has timed out, and is tried again a minute later", async (t) => {
  const { clock, receiver, daemon } = await startPair(t);
  receiver.answerNext({ kind: "hang" });
  const posted = await daemon.post({ postback_url: receiver.url() });
  await receiver.waitFor(1);
  clock.advance(10_000);
  await daemon.daemon.idle();

  const [delivery] = await deliveriesOf(daemon, posted.tasks[0]?.id ?? "");
  assert.equal(delivery?.attempts[0]?.outcome, "timed_out");
  assert.equal(delivery?.attempts[0]?.endedAt, NOW + 10_000);
  assert.equal(delivery?.attempts[1]?.dueAt, NOW + 10_000 + MINUTE);
  await pass(daemon, clock, MINUTE + TICK);
  assert.equal(receiver.requests.length, 2);
});

test("an address that is no longer allowed is refused at delivery and not retried", async (t) => {
  const { clock, receiver, daemon } = await startPair(t);
  receiver.answerNext({ kind: "status", status: 500 });
  const posted = await daemon.post({ postback_url: receiver.url() });
  await daemon.daemon.idle();
  await daemon.daemon.stop();

  const toml = "[webhooks]\nallow = []\n";
  const { folder, account } = daemon;
  const stricter = await startTestDaemon(t, { clock, folder, account, toml });
  await pass(stricter, clock, MINUTE + TICK);
  await pass(stricter, clock, 60 * MINUTE);

  assert.equal(receiver.requests.length, 1);
  const [delivery] = await deliveriesOf(stricter, posted.tasks[0]?.id ?? "");
  assert.equal(delivery?.state, "refused");
  assert.match(delivery?.attempts[1]?.refusal?.rule ?? "", /loopback/);
});

test("a scheduled retry outlives a restart and keeps its time", async (t) => {
  const { clock, receiver, daemon } = await startPair(t);
  receiver.answerNext({ kind: "status", status: 500 });
  await daemon.post({ postback_url: receiver.url() });
  await daemon.daemon.idle();
  await daemon.daemon.stop();
  const { folder, account } = daemon;
  const again = await startTestDaemon(t, { clock, folder, account });

  await pass(again, clock, MINUTE - TICK);
  assert.equal(receiver.requests.length, 1);
  await pass(again, clock, 2 * TICK);
  assert.equal(receiver.requests.length, 2);
});

test("an attempt that a stop breaks off is interrupted, and sent again at once without using a retry", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const receiver = await startReceiver(t);
  receiver.answerNext({ kind: "hang" });
  const toml = '[webhooks]\nallow = ["127.0.0.1"]\ntimeout = "60s"\n';
  const patient = await startTestDaemon(t, { clock, toml });
  const posted = await patient.post({ postback_url: receiver.url() });
  await receiver.waitFor(1);
  const stopped = patient.daemon.stop();
  clock.advance(18_000);
  await stopped;

  const { folder, account } = patient;
  const again = await startTestDaemon(t, { clock, folder, account });
  await again.daemon.idle();
  const [delivery] = await deliveriesOf(again, posted.tasks[0]?.id ?? "");
  assert.deepEqual(
    delivery?.attempts.map(({ outcome, number }) => [outcome, number]),
    [
      ["interrupted", 1],
      ["delivered", 2],
    ],
  );
  assert.equal(header(receiver.requests[1] ?? assert.fail(), "x-attempt"), "2");
  assert.equal((await again.ready()).tasks_count, 1);
});

test("a host that hangs fills its own lane and delays no other", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const hangs = await startReceiver(t, { host: "127.0.0.2" });
  const works = await startReceiver(t, { host: "127.0.0.1" });
  hangs.answer({ kind: "hang" });
  const toml = '[webhooks]\nallow = ["127.0.0.0/8"]\nmax_in_flight_per_host = 3\n';
  const daemon = await startTestDaemon(t, { clock, toml });
  await daemon.post(Array.from({ length: 50 }, () => ({ postback_url: hangs.url() })));
  await daemon.post(Array.from({ length: 5 }, () => ({ postback_url: works.url() })));

  await works.waitFor(5);
  await hangs.waitFor(3);
  assert.equal(hangs.requests.length, 3);
  const stopped = daemon.daemon.stop();
  clock.advance(18_000);
  await stopped;
});
