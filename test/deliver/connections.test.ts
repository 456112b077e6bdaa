import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import type { Socket } from "node:net";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { createFakeClock } from "../helpers/fake-clock.ts";
import { createGate, startReceiver } from "../helpers/receiver.ts";
import { requestTo, startSender } from "./sender-setup.ts";

test("the next attempt on the same host, port and address uses the same connection", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 200, body: "ok" } });
  const sender = startSender(t);

  for (const path of ["/a", "/b", "/c"]) {
    const result = await sender.send(requestTo(receiver.url(path)));
    assert.equal(result.address, "127.0.0.1");
  }

  assert.equal(receiver.connectionsSeen, 1);
});

test("attempts at once have a connection each", async (t) => {
  const gate = createGate();
  const reply = { kind: "status", status: 200 } as const;
  const receiver = await startReceiver(t, { reply: { kind: "held", until: gate.opened, reply } });
  const sender = startSender(t);

  const sent = [1, 2, 3].map(() => sender.send(requestTo(receiver.url())));
  await receiver.waitFor(3);
  gate.open();

  for (const result of await Promise.all(sent)) assert.equal(result.outcome, "delivered");
  assert.equal(receiver.connectionsSeen, 3);
});

test("another name for the same address has a connection of its own", async (t) => {
  const receiver = await startReceiver(t);
  const hosts = ["127.0.0.1 a.example.com b.example.com"];
  const sender = startSender(t, { hosts });

  await sender.send(requestTo(`http://a.example.com:${receiver.port}/`));
  await sender.send(requestTo(`http://b.example.com:${receiver.port}/`));
  await sender.send(requestTo(receiver.url()));

  assert.equal(receiver.connectionsSeen, 3);
});

test("another account on the same host has a connection of its own", async (t) => {
  const receiver = await startReceiver(t);
  const sender = startSender(t);

  for (const _round of [1, 2]) {
    await sender.send(requestTo(receiver.url(), { accountId: 1 }));
    await sender.send(requestTo(receiver.url(), { accountId: 2 }));
    // A webhook to the operator has no account.
    await sender.send(requestTo(receiver.url()));
  }

  assert.deepEqual(
    receiver.requests.map(({ connection }) => connection),
    [1, 2, 3, 1, 2, 3],
  );
});

test("another port and another scheme have connections of their own", async (t) => {
  const receiver = await startReceiver(t);
  const other = await startReceiver(t);
  const sender = startSender(t);

  await sender.send(requestTo(receiver.url()));
  await sender.send(requestTo(other.url()));
  const secure = await sender.send(requestTo(`https://127.0.0.1:${receiver.port}/`));
  await sender.send(requestTo(receiver.url()));

  assert.equal(secure.error, "TLS handshake failed");
  assert.equal(other.connectionsSeen, 1);
  assert.equal(receiver.connectionsSeen, 2);
  assert.deepEqual(
    receiver.requests.map(({ connection }) => connection),
    [1, 1],
  );
});

test("an answer in HTTP/1.0 counts, and its connection is not used again", async (t) => {
  const bytes = "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok";
  const receiver = await startReceiver(t, { reply: { kind: "raw", bytes } });
  const sender = startSender(t);

  const result = await sender.send(requestTo(receiver.url()));
  await receiver.whenDisconnected();

  assert.equal(result.outcome, "delivered");
  assert.equal(result.responseExcerpt, "ok");
});

for (const [how, bytes] of [
  ["is longer than what is read of it", `Content-Length: 5000\r\n\r\n${"a".repeat(5000)}`],
  ["says that the connection closes", "Connection: close\r\nContent-Length: 0\r\n\r\n"],
  [
    "says that the connection is kept for no time",
    "Keep-Alive: timeout=1\r\nContent-Length: 0\r\n\r\n",
  ],
  [
    "is followed by bytes that nobody asked for",
    "Content-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
  ],
] as const) {
  test(`a connection is not used again after an answer that ${how}`, async (t) => {
    const receiver = await startReceiver(t, {
      reply: { kind: "raw", bytes: `HTTP/1.1 200 OK\r\n${bytes}` },
    });
    const sender = startSender(t);

    const result = await sender.send(requestTo(receiver.url()));
    await receiver.whenDisconnected();
    await sender.send(requestTo(receiver.url()));

    assert.equal(result.outcome, "delivered");
    assert.equal(receiver.connectionsSeen, 2);
  });
}

test("an answer that comes before the request is written through ends its connection", async (t) => {
  const server = await startTcp(t, (socket) => {
    socket.once("data", () => {
      socket.pause();
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    });
  });

  const clock = createFakeClock({ now: 0 });
  const result = await startSender(t, { clock }).send(
    requestTo(`http://127.0.0.1:${server.port}/`, { body: "a".repeat(16_000_000) }),
  );

  assert.equal(result.outcome, "delivered");
  assert.equal(result.responseExcerpt, "ok");
});

test("a connection that the receiver writes to unasked is dropped: no attempt reads a planted answer", async (t) => {
  const answer = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n";
  const connections: Socket[] = [];
  const server = await startTcp(t, (socket) => {
    connections.push(socket);
    socket.on("data", () => socket.write(`${answer}genuine`));
  });
  // A clock that stands still: no timer closes the connection, only the bytes on it.
  const sender = startSender(t, { clock: createFakeClock({ now: 0 }) });
  const request = requestTo(`http://127.0.0.1:${server.port}/`);

  await sender.send(request);
  const [first] = connections;
  assert(first !== undefined);
  first.write(`${answer}planted`);
  await once(first, "close");
  const second = await sender.send(request);

  assert.equal(second.responseExcerpt, "genuine");
  assert.equal(connections.length, 2);
});

test("an idle connection is closed after ten seconds, and none is kept for ever", async (t) => {
  const receiver = await startReceiver(t);
  const clock = createFakeClock({ now: 0 });
  const sender = startSender(t, { clock });

  await sender.send(requestTo(receiver.url()));
  clock.advance(8000);
  await sender.send(requestTo(receiver.url()));
  clock.advance(9999);
  assert.equal(receiver.connectionsSeen, 1);
  clock.advance(3000);

  await receiver.whenDisconnected();
  assert.deepEqual(clock.pending(), []);
});

test("an idle connection is not used for longer than its receiver says it keeps it", async (t) => {
  const headers = { "Keep-Alive": "timeout=5, max=100" };
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 200, headers } });
  const clock = createFakeClock({ now: 0 });
  const sender = startSender(t, { clock });

  await sender.send(requestTo(receiver.url()));
  clock.jump(3999);
  await sender.send(requestTo(receiver.url()));
  assert.equal(receiver.connectionsSeen, 1);
  clock.jump(4000);
  await sender.send(requestTo(receiver.url()));

  assert.equal(receiver.connectionsSeen, 2);
});

test("at most 256 idle connections are kept, the rest are closed", async (t) => {
  const status = { kind: "status", status: 200 } as const;
  const receiver = await startReceiver(t);
  const sender = startSender(t);

  for (const round of [1, 2]) {
    const gate = createGate();
    receiver.answer({ kind: "held", until: gate.opened, reply: status });
    const sent = Array.from({ length: 300 }, () => sender.send(requestTo(receiver.url())));
    await receiver.waitFor(300 * round);
    gate.open();
    await Promise.all(sent);
  }

  assert.equal(receiver.connectionsSeen, 300 + (300 - 256));
});

for (const [how, end] of [
  ["closes", { kind: "close" }],
  ["resets", { kind: "reset" }],
] as const) {
  test(`when a receiver ${how} a reused connection unanswered, the attempt sends once more on a new one`, async (t) => {
    const receiver = await startReceiver(t);
    const sender = startSender(t);
    await sender.send(requestTo(receiver.url("/first")));
    receiver.answerNext(end);

    const result = await sender.send(requestTo(receiver.url("/second"), { body: "twice" }));

    assert.equal(result.outcome, "delivered");
    assert.notEqual(result.phases.connectMs, null);
    const [, lost, arrived] = receiver.requests;
    assert.equal(lost?.connection, 1);
    assert.equal(arrived?.connection, 2);
    assert.equal(arrived?.rawBody.toString(), "twice");
  });
}

test("it sends once more, not for ever", async (t) => {
  const receiver = await startReceiver(t);
  const sender = startSender(t);
  await sender.send(requestTo(receiver.url()));
  receiver.answer({ kind: "reset" });

  const result = await sender.send(requestTo(receiver.url()));

  assert.equal(result.outcome, "failed");
  assert.equal(receiver.requests.length, 3);
});

test("a request on a new connection, or one whose answer has begun, is not sent again", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "reset" } });
  const sender = startSender(t);

  const fresh = await sender.send(requestTo(receiver.url()));
  receiver.answerNext({ kind: "status", status: 204 });
  await sender.send(requestTo(receiver.url()));
  receiver.answerNext({ kind: "raw", bytes: "HTTP/1.1 20", end: true });
  const begun = await sender.send(requestTo(receiver.url()));

  assert.equal(fresh.outcome, "failed");
  assert.equal(begun.outcome, "failed");
  assert.equal(receiver.requests.length, 3);
});

test("closing the sender closes idle connections and leaves what is in flight alone", async (t) => {
  const gate = createGate();
  const reply = { kind: "status", status: 200 } as const;
  const receiver = await startReceiver(t);
  const sender = startSender(t);
  await sender.send(requestTo(receiver.url()));
  receiver.answer({ kind: "held", until: gate.opened, reply });
  const inFlight = [1, 2].map(() => sender.send(requestTo(receiver.url())));
  await receiver.waitFor(3);

  sender.close();
  gate.open();

  for (const result of await Promise.all(inFlight)) assert.equal(result.outcome, "delivered");
  await receiver.whenDisconnected();
});

test("aborting ends as interrupted what has no status yet, and frees it", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "hang" } });
  const sender = startSender(t);

  const sent = sender.send(requestTo(receiver.url()));
  await receiver.next();
  sender.abort();

  const result = await sent;
  assert.equal(result.outcome, "interrupted");
  assert.equal(result.error, "sending was stopped");
  await receiver.whenDisconnected();
});

test("aborting takes back no delivery: what has its status is delivered", async (t) => {
  const bytes = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbegun";
  const receiver = await startReceiver(t, { reply: { kind: "raw", bytes } });
  const clock = createFakeClock({ now: 0 });
  const sender = startSender(t, { clock });

  const sent = sender.send(requestTo(receiver.url()));
  await clock.whenPending(2);
  sender.abort();

  assert.equal((await sent).outcome, "delivered");
});

async function startTcp(
  t: TestContext,
  serve: (socket: Socket) => void,
): Promise<{ readonly port: number }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    serve(socket);
  });
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert(typeof address === "object" && address !== null);
  return { port: address.port };
}
