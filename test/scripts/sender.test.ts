import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { test } from "node:test";

import { Sender } from "../../scripts/kit/sender.ts";

const OK = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

test("a request whose connection breaks has no answer, and the next one gets a new connection", async (t) => {
  let connections = 0;
  const server = createServer((socket) => {
    const isFirst = connections++ === 0;
    socket.on("error", () => {});
    socket.on("data", () => (isFirst ? socket.destroy() : socket.write(OK)));
  });
  t.after(() => server.close());
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  assert(typeof address === "object" && address !== null);
  const ended: [number, string | undefined][] = [];
  const all = Promise.withResolvers<void>();
  using sender = new Sender<number>({
    port: address.port,
    connections: 1,
    requestOf: (index) => `GET /${index} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`,
    onEnd(index, answer) {
      ended.push([index, answer?.head.split("\r\n", 1)[0]]);
      if (ended.length === 3) all.resolve();
    },
  });

  for (const index of [0, 1, 2]) sender.send(index);
  await all.promise;

  assert.deepEqual(ended, [
    [0, undefined],
    [1, "HTTP/1.1 200 OK"],
    [2, "HTTP/1.1 200 OK"],
  ]);
  assert.equal(connections, 2);
});

test("a sender that is let go opens no connection for what is still due", async (t) => {
  const sockets: Socket[] = [];
  const server = createServer((socket) => void sockets.push(socket.on("error", () => {})));
  t.after(() => server.close());
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  assert(typeof address === "object" && address !== null);
  const ended = Promise.withResolvers<number>();
  const sender = new Sender<number>({
    port: address.port,
    connections: 1,
    requestOf: () => "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    onEnd: (index) => ended.resolve(index),
  });
  sender.send(1);
  sender.send(2);
  await once(server, "connection");

  sender[Symbol.dispose]();

  assert.equal(await ended.promise, 1);
  const closed = sockets.map((socket) => once(socket.resume(), "close"));
  await Promise.all(closed);
  server.close();
  await once(server, "close");
  assert.equal(sockets.length, 1);
});
