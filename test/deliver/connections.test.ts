import assert from "node:assert/strict";
import { once } from "node:events";
import type { Socket } from "node:net";
import { test } from "node:test";

import { createFakeClock } from "../helpers/fake-clock.ts";
import { createGate, startReceiver } from "../helpers/receiver.ts";
import { requestTo, startByteServer, startSender } from "./sender-setup.ts";

test("an attempt reuses only a connection of the same name, port, scheme and account", async (t) => {
  const receiver = await startReceiver(t);
  const other = await startReceiver(t);
  const sender = startSender(t, { hosts: ["127.0.0.1 a.example.com b.example.com"] });
  const requests = [
    requestTo(`http://a.example.com:${receiver.port}/`),
    requestTo(`http://b.example.com:${receiver.port}/`),
    requestTo(receiver.url()),
    requestTo(receiver.url(), { accountId: 1 }),
    requestTo(receiver.url(), { accountId: 2 }),
  ];

  for (const request of [...requests, ...requests]) {
    assert.equal((await sender.send(request)).address, "127.0.0.1");
  }
  await sender.send(requestTo(other.url()));
  const secure = await sender.send(requestTo(`https://127.0.0.1:${receiver.port}/`));

  assert.equal(secure.outcome, "failed");
  assert.deepEqual([receiver.connectionsSeen, other.connectionsSeen], [6, 1]);
  assert.deepEqual(
    receiver.requests.map(({ connection }) => connection),
    [1, 2, 3, 4, 5, 1, 2, 3, 4, 5],
  );
});

for (const [response, bytes] of [
  ["longer than the excerpt", `Content-Length: 5000\r\n\r\n${"a".repeat(5000)}`],
  ["with Connection: close", "Connection: close\r\nContent-Length: 0\r\n\r\n"],
  ["with a Keep-Alive of one second", "Keep-Alive: timeout=1\r\nContent-Length: 0\r\n\r\n"],
  ["with bytes after its end", "Content-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"],
] as const) {
  test(`a connection is not used again after a response ${response}`, async (t) => {
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

test("a response before the end of the request ends its connection", async (t) => {
  const accepted = Promise.withResolvers<Socket>();
  const url = await startByteServer(t, (socket) => {
    accepted.resolve(socket);
    socket.once("data", () => {
      socket.pause();
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    });
  });

  const clock = createFakeClock({ now: 0 });
  const result = await startSender(t, { clock }).send(
    requestTo(url.href, { body: "a".repeat(16_000_000) }),
  );

  assert.equal(result.outcome, "delivered");
  assert.equal(result.responseExcerpt, "ok");
  const socket = await accepted.promise;
  socket.resume();
  await once(socket, "close");
});

test("bytes on an idle connection close it, and no attempt reads them as its response", async (t) => {
  const answer = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n";
  const connections: Socket[] = [];
  const url = await startByteServer(t, (socket) => {
    connections.push(socket);
    socket.on("data", () => socket.write(`${answer}genuine`));
  });
  // The clock stands still: only the bytes close the connection.
  const sender = startSender(t, { clock: createFakeClock({ now: 0 }) });
  const request = requestTo(url.href);

  await sender.send(request);
  const [first] = connections;
  assert(first !== undefined);
  first.write(`${answer}planted`);
  await once(first, "close");
  const second = await sender.send(request);

  assert.equal(second.responseExcerpt, "genuine");
  assert.equal(connections.length, 2);
});

test("an idle connection is closed after ten seconds", async (t) => {
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

test("an idle connection is not used beyond the Keep-Alive of its receiver", async (t) => {
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

test("at most 256 idle connections are kept", async (t) => {
  const status = { kind: "status", status: 200 } as const;
  const receiver = await startReceiver(t);
  // The clock stands still: no connection expires on a busy machine.
  const sender = startSender(t, { clock: createFakeClock({ now: 0 }) });

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
  test(`an attempt is sent again on a new connection if the receiver ${how} a reused one without a response`, async (t) => {
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

test("an attempt is sent again only once", async (t) => {
  const receiver = await startReceiver(t);
  const sender = startSender(t);
  await sender.send(requestTo(receiver.url()));
  receiver.answer({ kind: "reset" });

  const result = await sender.send(requestTo(receiver.url()));

  assert.equal(result.outcome, "failed");
  assert.equal(receiver.requests.length, 3);
});

test("a request on a new connection, or after the begin of its response, is not sent again", async (t) => {
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

test("a close of the sender closes idle connections and no attempt in flight", async (t) => {
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

test("an abort interrupts an attempt without a status and closes its connection", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "hang" } });
  const sender = startSender(t);

  const sent = sender.send(requestTo(receiver.url()));
  await receiver.next();
  sender.abort();

  const result = await sent;
  assert.equal(result.outcome, "interrupted");
  await receiver.whenDisconnected();
});

test("an attempt with a status stays delivered after an abort", async (t) => {
  const bytes = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbegun";
  const receiver = await startReceiver(t, { reply: { kind: "raw", bytes } });
  const clock = createFakeClock({ now: 0 });
  const sender = startSender(t, { clock });

  const sent = sender.send(requestTo(receiver.url()));
  await clock.whenPending(2);
  sender.abort();

  assert.equal((await sent).outcome, "delivered");
});
