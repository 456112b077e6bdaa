import assert from "node:assert/strict";
import { test } from "node:test";

import { createFakeClock } from "../helpers/fake-clock.ts";
import { startReceiver } from "../helpers/receiver.ts";
import type { Reply } from "../helpers/receiver.ts";
import { requestTo, startSender } from "./sender-setup.ts";
import { startByteServer } from "./service-post.ts";

const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

const STATUS_LINE = "HTTP/1.1 200 OK\r\n";

// webhooks.md: a 2xx status line is a delivery. A later fault only closes the connection.
const DELIVERIES: readonly (readonly [string, Reply])[] = [
  [
    "sends headers without end",
    { kind: "flood", head: STATUS_LINE, bytes: "X-More: more and more and more\r\n" },
  ],
  [
    "sends one header without end",
    { kind: "flood", head: `${STATUS_LINE}X-More: `, bytes: "more and more and more " },
  ],
  [
    "sends a chunk extension without end",
    {
      kind: "flood",
      head: `${STATUS_LINE}Transfer-Encoding: chunked\r\n\r\n1;a=`,
      bytes: "extension",
    },
  ],
  [
    "resets in the middle of the headers",
    { kind: "raw", bytes: `${STATUS_LINE}Content-Le`, end: "reset" },
  ],
  ["closes after the status line", { kind: "raw", bytes: STATUS_LINE, end: true }],
  ["drips its headers", { kind: "drip", head: STATUS_LINE, bytes: "X-A: b\r\n", everyMs: 5 }],
];

for (const [does, reply] of DELIVERIES) {
  test(`an attempt is delivered if the receiver ${does} after a 2xx status, and its connection closes`, async (t) => {
    const receiver = await startReceiver(t, { reply });
    const sender = startSender(t);

    const result = await sender.send(requestTo(receiver.url()));

    assert.deepEqual(
      [result.outcome, result.httpStatus, result.error, result.responseExcerpt],
      ["delivered", 200, null, ""],
    );
    await receiver.whenDisconnected();
  });
}

test("a status line other than 2xx fails an attempt, also before a fault", async (t) => {
  const bytes = "HTTP/1.1 503 Busy\nRetry-After: 9\n\nbusy";
  const receiver = await startReceiver(t, { reply: { kind: "raw", bytes, end: true } });

  const result = await startSender(t).send(requestTo(receiver.url()));

  assert.deepEqual(
    [result.outcome, result.httpStatus, result.retryAfter, result.responseExcerpt],
    ["failed", 503, "9", "busy"],
  );
});

for (const upgrade of ["Upgrade: h2c\r\n", ""]) {
  test(`a response of 101 ${upgrade === "" ? "without" : "with"} Upgrade fails the attempt`, async (t) => {
    const bytes = `HTTP/1.1 101 Switching Protocols\r\n${upgrade}Connection: Upgrade\r\n\r\n\x00binary`;
    const receiver = await startReceiver(t, { reply: { kind: "raw", bytes } });

    const result = await startSender(t).send(requestTo(receiver.url()));

    assert.deepEqual([result.outcome, result.httpStatus], ["failed", 101]);
    assert.match(result.error ?? "", /protocols/);
    await receiver.whenDisconnected();
  });
}

test("ten informational responses may precede the final one", async (t) => {
  const informational =
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n";
  const receiver = await startReceiver(t, {
    reply: { kind: "raw", bytes: informational.repeat(5) + OK },
  });
  const sender = startSender(t);

  const first = await sender.send(requestTo(receiver.url()));
  const second = await sender.send(requestTo(receiver.url()));

  assert.equal(first.outcome, "delivered");
  assert.equal(first.responseExcerpt, "ok");
  assert.equal(second.outcome, "delivered");
  assert.equal(receiver.connectionsSeen, 1);
});

test("a body without end is cut, and its connection closes", async (t) => {
  for (const head of [
    "HTTP/1.1 200 OK\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
  ]) {
    const receiver = await startReceiver(t, { reply: { kind: "flood", head, bytes: "more " } });
    // The clock stands still: the size ends the attempt.
    const sender = startSender(t, { clock: createFakeClock({ now: 0 }) });

    const result = await sender.send(requestTo(receiver.url()));

    assert.equal(result.outcome, "delivered");
    assert.equal(result.responseExcerpt?.length, 4096);
    await receiver.whenDisconnected();
  }
});

// Only the deadline ends these attempts.
const ENDLESS: readonly (readonly [string, Reply])[] = [
  ["hangs", { kind: "hang" }],
  ["drips its status line", { kind: "drip", bytes: "HTTP/1.1 200 OK".repeat(1000), everyMs: 5 }],
  ["sends only 100 Continue", { kind: "raw", bytes: "HTTP/1.1 100 Continue\r\n\r\n" }],
  ["drips empty lines", { kind: "drip", bytes: "\r\n", everyMs: 5 }],
];

for (const [does, reply] of ENDLESS) {
  test(`an attempt times out if the receiver ${does}`, async (t) => {
    const receiver = await startReceiver(t, { reply });
    const clock = createFakeClock({ now: 0 });

    const sent = startSender(t, { clock }).send(requestTo(receiver.url()));
    await receiver.next();
    clock.advance(9999);
    assert.deepEqual(clock.pending(), [1]);
    clock.advance(1);

    const result = await sent;
    assert.equal(result.outcome, "timed_out");
    assert.equal(result.httpStatus, null);
    assert.match(result.error ?? "", /^timed out/);
    assert.equal(result.address, "127.0.0.1");
    assert.deepEqual(clock.pending(), []);
    await receiver.whenDisconnected();
  });
}

test("an attempt times out if the receiver never reads its large body", async (t) => {
  const accepted = Promise.withResolvers<void>();
  const url = await startByteServer(t, (socket) => {
    socket.pause();
    accepted.resolve();
  });
  const clock = createFakeClock({ now: 0 });

  const sent = startSender(t, { clock }).send(
    requestTo(url.href, { body: "a".repeat(16_000_000) }),
  );
  await accepted.promise;
  clock.advance(10_000);

  const result = await sent;
  assert.equal(result.outcome, "timed_out");
});

test("the deadline ends an attempt in real time", async (t) => {
  const receiver = await startReceiver(t, {
    reply: { kind: "drip", bytes: "\r\n", everyMs: 5 },
  });

  const result = await startSender(t, { timeoutMs: 200 }).send(requestTo(receiver.url()));

  assert.equal(result.outcome, "timed_out");
  await receiver.whenDisconnected();
});
