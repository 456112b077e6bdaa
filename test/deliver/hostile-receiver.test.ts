import assert from "node:assert/strict";
import { test } from "node:test";

import { createFakeClock } from "../helpers/fake-clock.ts";
import { startReceiver } from "../helpers/receiver.ts";
import type { Reply } from "../helpers/receiver.ts";
import { requestTo, startSender } from "./sender-setup.ts";

const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

// What each of these does is over by itself, in real time, well before the deadline.
const FAILURES: readonly (readonly [string, Reply, string])[] = [
  ["closes without an answer", { kind: "close" }, "connection was closed without an answer"],
  ["resets the connection", { kind: "reset" }, "connection was closed without an answer"],
  [
    "answers garbage",
    { kind: "raw", bytes: "\x16\x03\x01\x02\x00garbage\r\n\r\n" },
    "answer is not valid HTTP",
  ],
  ["answers as HTTP/0.9 did", { kind: "raw", bytes: "<p>hello" }, "answer is not valid HTTP"],
  [
    "answers in another protocol",
    { kind: "raw", bytes: "220 mail.example.com ESMTP\r\n" },
    "answer is not valid HTTP",
  ],
  [
    "answers with a status of two digits",
    { kind: "raw", bytes: "HTTP/1.1 99 Low\r\n\r\n" },
    "answer is not valid HTTP",
  ],
  [
    "answers with a status of four digits",
    { kind: "raw", bytes: "HTTP/1.1 2000 High\r\n\r\n" },
    "answer is not valid HTTP",
  ],
  [
    "sends 100 Continue without end",
    { kind: "flood", bytes: "HTTP/1.1 100 Continue\r\n\r\n" },
    "too many informational answers",
  ],
  [
    "sends 103 Early Hints without end",
    { kind: "flood", bytes: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" },
    "too many informational answers",
  ],
  [
    "resets in the middle of the status line",
    { kind: "raw", bytes: "HTTP/1.1 20", end: "reset" },
    "connection was closed without an answer",
  ],
  [
    "closes after an informational answer",
    { kind: "raw", bytes: "HTTP/1.1 103 Early Hints\r\n\r\n", end: true },
    "connection was closed without an answer",
  ],
];

for (const [does, reply, error] of FAILURES) {
  test(`a receiver that ${does} makes the attempt fail and holds nothing`, async (t) => {
    const receiver = await startReceiver(t, { reply });

    const result = await startSender(t).send(requestTo(receiver.url()));

    assert.deepEqual(
      { ...result, phases: result.phases.firstByteMs },
      {
        outcome: "failed",
        httpStatus: null,
        error,
        address: "127.0.0.1",
        phases: null,
        responseExcerpt: null,
        refusal: null,
        retryAfter: null,
      },
    );
    assert.equal(receiver.requests.length, 1);
    await receiver.whenDisconnected();
  });
}

const STATUS_LINE = "HTTP/1.1 200 OK\r\n";

// Contract §5: a 2xx status line is a delivery. A fault behind it only closes the connection.
const DELIVERIES: readonly (readonly [string, Reply])[] = [
  [
    "ends its lines with LF alone",
    { kind: "raw", bytes: "HTTP/1.1 200 OK\nContent-Length: 0\n\n" },
  ],
  [
    "ends one line with LF alone",
    { kind: "raw", bytes: `${STATUS_LINE}A: b\nContent-Length: 0\r\n\r\n` },
  ],
  [
    "sends the same length twice",
    { kind: "raw", bytes: `${STATUS_LINE}Content-Length: 0\r\nContent-Length: 0\r\n\r\n` },
  ],
  [
    "sends two lengths",
    { kind: "raw", bytes: `${STATUS_LINE}Content-Length: 5\r\nContent-Length: 6\r\n\r\n` },
  ],
  [
    "sends a length and chunks",
    {
      kind: "raw",
      bytes: `${STATUS_LINE}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    },
  ],
  [
    "folds a header",
    { kind: "raw", bytes: `${STATUS_LINE}A: b\r\n c\r\nContent-Length: 0\r\n\r\n` },
  ],
  [
    "sends a header of 17 KiB",
    { kind: "raw", bytes: `${STATUS_LINE}X-More: ${"m".repeat(17 * 1024)}\r\n\r\n` },
  ],
  [
    "sends headers without end",
    { kind: "flood", head: STATUS_LINE, bytes: "X-More: more and more and more\r\n" },
  ],
  [
    "sends one header without end",
    { kind: "flood", head: `${STATUS_LINE}X-More: `, bytes: "more and more and more " },
  ],
  [
    "resets in the middle of the headers",
    { kind: "raw", bytes: `${STATUS_LINE}Content-Le`, end: "reset" },
  ],
  ["closes after the status line", { kind: "raw", bytes: STATUS_LINE, end: true }],
  ["drips its headers", { kind: "drip", head: STATUS_LINE, bytes: "X-A: b\r\n", everyMs: 5 }],
];

for (const [does, reply] of DELIVERIES) {
  test(`a receiver that ${does} after a 2xx status is delivered to, and its connection closes`, async (t) => {
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

test("a status line other than 2xx decides an attempt, even if a fault follows it", async (t) => {
  const bytes = "HTTP/1.1 503 Busy\nRetry-After: 9\n\nbusy";
  const receiver = await startReceiver(t, { reply: { kind: "raw", bytes, end: true } });

  const result = await startSender(t).send(requestTo(receiver.url()));

  assert.deepEqual(
    [result.outcome, result.httpStatus, result.retryAfter, result.responseExcerpt],
    ["failed", 503, "9", "busy"],
  );
});

for (const [how, head] of [
  ["asked for an upgrade", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n"],
  ["says nothing of one", "HTTP/1.1 101 Switching Protocols\r\n"],
] as const) {
  test(`an answer of 101 that ${how} is a failure`, async (t) => {
    const bytes = `${head}Connection: Upgrade\r\n\r\n\x00\x00binary`;
    const receiver = await startReceiver(t, { reply: { kind: "raw", bytes } });

    const result = await startSender(t).send(requestTo(receiver.url()));

    assert.equal(result.outcome, "failed");
    assert.equal(result.httpStatus, 101);
    assert.equal(result.error, "receiver switched protocols");
    await receiver.whenDisconnected();
  });
}

test("up to ten informational answers before the real one are no failure", async (t) => {
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

test("a body without end is cut and its connection closed", async (t) => {
  for (const head of [
    "HTTP/1.1 200 OK\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
  ]) {
    const receiver = await startReceiver(t, { reply: { kind: "flood", head, bytes: "more " } });
    // A clock that stands still: it is the size that ends the attempt.
    const sender = startSender(t, { clock: createFakeClock({ now: 0 }) });

    const result = await sender.send(requestTo(receiver.url()));

    assert.equal(result.outcome, "delivered");
    assert.equal(result.responseExcerpt?.length, 4096);
    await receiver.whenDisconnected();
  }
});

test("chunks whose extensions have no end are cut", async (t) => {
  const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;a=";
  const receiver = await startReceiver(t, { reply: { kind: "flood", head, bytes: "extension" } });

  const result = await startSender(t).send(requestTo(receiver.url()));

  assert.equal(result.outcome, "delivered");
  assert.equal(result.responseExcerpt, "");
  await receiver.whenDisconnected();
});

// What each of these does goes on for ever: only the deadline ends it.
const ENDLESS: readonly (readonly [string, Reply])[] = [
  ["hangs", { kind: "hang" }],
  ["drips its status line", { kind: "drip", bytes: "HTTP/1.1 200 OK".repeat(1000), everyMs: 5 }],
  ["says 100 Continue and no more", { kind: "raw", bytes: "HTTP/1.1 100 Continue\r\n\r\n" }],
  ["drips empty lines", { kind: "drip", bytes: "\r\n", everyMs: 5 }],
];

for (const [does, reply] of ENDLESS) {
  test(`a receiver that ${does} is left at the deadline`, async (t) => {
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
    assert.equal(result.error, "timed out waiting for the answer");
    assert.equal(result.address, "127.0.0.1");
    assert.deepEqual(clock.pending(), []);
    await receiver.whenDisconnected();
  });
}

test("a receiver that never reads a large body is left at the deadline", async (t) => {
  const { createServer } = await import("node:net");
  const server = createServer({ pauseOnConnect: true });
  const accepted = new Promise<void>((resolve) => server.once("connection", () => resolve()));
  server.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  t.after(() => server.close());
  const address = server.address();
  assert(typeof address === "object" && address !== null);
  const clock = createFakeClock({ now: 0 });

  const sent = startSender(t, { clock }).send(
    requestTo(`http://127.0.0.1:${address.port}/`, { body: "a".repeat(16_000_000) }),
  );
  await accepted;
  clock.advance(10_000);

  const result = await sent;
  assert.equal(result.outcome, "timed_out");
});

test("the clock's own deadline ends an attempt in real time", async (t) => {
  const receiver = await startReceiver(t, {
    reply: { kind: "drip", bytes: "\r\n", everyMs: 5 },
  });

  const result = await startSender(t, { timeoutMs: 200 }).send(requestTo(receiver.url()));

  assert.equal(result.outcome, "timed_out");
  await receiver.whenDisconnected();
});
