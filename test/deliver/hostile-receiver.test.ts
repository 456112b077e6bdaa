import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { type Socket, createServer } from "node:net";
import { type TestContext, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { makeCertificate } from "../helpers/certificate.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { type Reply, listen, startReceiver } from "../helpers/receiver.ts";
import { requestTo, startByteServer, startSender } from "./sender-setup.ts";

const STATUS_LINE = "HTTP/1.1 200 OK\r\n";

// webhooks.md: a 2xx status line is a delivery. A later fault only closes the connection.
const DELIVERIES: readonly (readonly [string, Reply])[] = [
  [
    "sends headers without end",
    { kind: "flood", head: STATUS_LINE, bytes: "X-More: more and more and more\r\n" },
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

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

const LINUX_ONLY = {
  skip: process.platform === "linux" ? false : "open descriptors are counted in /proc",
};

// The receiver's action by path.
const BAD: Readonly<Record<string, (socket: Socket) => void>> = {
  "/close": (socket) => socket.end(),
  "/reset": (socket) => socket.resetAndDestroy(),
  "/reset-in-status": (socket) => socket.write("HTTP/1.1 20", () => void socket.resetAndDestroy()),
  "/reset-in-body": (socket) =>
    socket.write("HTTP/1.1 200 OK\r\n\r\na", () => void socket.resetAndDestroy()),
  "/garbage": (socket) => socket.write("\x16\x03\x01\x02\x00garbage\r\n\r\n"),
  "/http-0.9": (socket) => socket.write("<p>hello"),
  "/99": (socket) => socket.write("HTTP/1.1 99 Low\r\n\r\n"),
  "/2000": (socket) => socket.write("HTTP/1.1 2000 High\r\n\r\n"),
  "/101": (socket) =>
    socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"),
  "/both": (socket) =>
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
  "/long": (socket) => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\na"),
  "/hang": () => {},
  "/half-head": (socket) => socket.write("HTTP/1.1 200 OK\r\nX-A: b"),
  "/continue": (socket) => pour(socket, "HTTP/1.1 100 Continue\r\n\r\n"),
  "/headers": (socket) => pour(socket, "X-More: more and more\r\n", "HTTP/1.1 200 OK\r\n"),
  "/body": (socket) => pour(socket, "more and more", "HTTP/1.1 200 OK\r\n\r\n"),
};
const PATHS = Object.keys(BAD);
const ROUND = PATHS.flatMap((path) => [path, path, path, path]);

test("a thousand bad exchanges leak no descriptors and no memory", LINUX_ONLY, async (t) => {
  const { port, whenQuiet } = await startBadServer(t);
  // Short, because only the deadline ends some exchanges.
  const sender = startSender(t, { timeoutMs: 100 });
  const round = async (): Promise<void> => {
    const sent = ROUND.map((path) =>
      sender.send(requestTo(`http://127.0.0.1:${port}${path}`, { body: "a".repeat(1000) })),
    );
    await Promise.all(sent);
    await whenQuiet();
  };

  await repeat(5, round);
  const before = holdings();
  await repeat(Math.ceil(1000 / ROUND.length), round);

  assertHeldLike(before);
});

test("a thousand bad certificates leak no descriptors and no memory", LINUX_ONLY, async (t) => {
  const tls = makeCertificate({ commonName: "nobody", addresses: ["127.0.0.1"] });
  const receiver = await startReceiver(t, { tls });
  const sender = startSender(t);
  const round = async (): Promise<void> => {
    const sent = Array.from({ length: 20 }, () => sender.send(requestTo(receiver.url())));
    for (const { error } of await Promise.all(sent)) assert.match(error ?? "", /certificate/);
    await receiver.whenDisconnected();
  };

  await repeat(10, round);
  const before = holdings();
  await repeat(50, round);

  assertHeldLike(before);
  assert.equal(receiver.requests.length, 0);
});

interface BadServer {
  readonly port: number;
  /** Resolves once every connection is closed. */
  whenQuiet(): Promise<void>;
}

/** Acts on each request by its path. Unlike a receiver it keeps nothing. */
async function startBadServer(t: TestContext): Promise<BadServer> {
  const sockets = new Set<Socket>();
  let wake = (): void => {};
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => {
      sockets.delete(socket);
      wake();
    });
    socket.once("data", (head: Buffer) => {
      const path = /^POST (\S+) /.exec(head.toString("latin1"))?.[1] ?? "";
      (BAD[path] ?? assert.fail(path))(socket);
      socket.resume();
    });
  });
  const port = await listen(server, { host: "127.0.0.1", port: 0 });
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const whenQuiet = async (): Promise<void> => {
    while (sockets.size > 0) await new Promise<void>((resolve) => (wake = resolve));
  };
  return { port, whenQuiet };
}

function pour(socket: Socket, bytes: string, head = ""): void {
  socket.write(head);
  const chunk = bytes.repeat(Math.floor(16_384 / bytes.length));
  const more = (): void => {
    if (socket.destroyed) return;
    if (socket.write(chunk)) setImmediate(more);
    else socket.once("drain", more);
  };
  more();
}

async function repeat(times: number, round: () => Promise<void>): Promise<void> {
  for (let done = 0; done < times; done++) await round();
}

interface Holdings {
  readonly descriptors: number;
  readonly heapBytes: number;
  readonly nativeBytes: number;
}

function holdings(): Holdings {
  collectGarbage();
  collectGarbage();
  const { heapUsed, external, rss } = process.memoryUsage();
  const descriptors = readdirSync("/proc/self/fd").length;
  return { descriptors, heapBytes: heapUsed + external, nativeBytes: rss };
}

function assertHeldLike(before: Holdings): void {
  const after = holdings();
  // A connection whose attempt ended before it was accepted may still be closing.
  const descriptors = after.descriptors - before.descriptors;
  assert(descriptors < 20, `${descriptors} more descriptors are open`);
  // The heap varies by 400 KB. A leak is a kilobyte of each exchange, or a store of certificates (1 MB) of each
  // TLS connection.
  const heap = after.heapBytes - before.heapBytes;
  assert(heap < 1_200_000, `the heap has grown by ${heap} bytes`);
  const native = after.nativeBytes - before.nativeBytes;
  assert(native < 100_000_000, `the process has grown by ${native} bytes`);
}
