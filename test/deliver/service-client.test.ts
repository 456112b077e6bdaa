import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import type { Socket } from "node:net";
import { test, type TestContext } from "node:test";
import { gzipSync } from "node:zlib";

import { OTHER_BODY_BYTES_MAX, type ServicePost } from "../../src/deliver/service-client.ts";
import { TURN_CHUNKS_MAX } from "../../src/domain/json/chunks.ts";
import { createGate, startReceiver } from "../helpers/receiver.ts";
import type { Reply } from "../helpers/receiver.ts";
import { answered, postOf, startBlackHole, startByteServer, startClient } from "./sender-setup.ts";

const OK = "HTTP/1.1 200 OK\r\n";

/** Bytes of a response. The receiver closes the connection after them by default. */
function raw(bytes: string | Uint8Array, end: boolean | "reset" = true): Reply {
  return { kind: "raw", bytes, end };
}

/** A receiver, and a client that posts to it. */
async function setUp(t: TestContext, options: { reply?: Reply; socketsMax?: number } = {}) {
  const { reply = { kind: "status", status: 204 }, ...limits } = options;
  const receiver = await startReceiver(t, { reply });
  const client = startClient(t, limits);
  const post = (overrides: Partial<ServicePost> = {}) =>
    client.post(new URL(receiver.url()), postOf(overrides));
  const postOk = async (overrides: Partial<ServicePost> = {}) => answered(await post(overrides));
  return { receiver, client, post, postOk };
}

/** The connection of each request so far, by number. */
function connectionsOf(receiver: Awaited<ReturnType<typeof startReceiver>>): readonly number[] {
  return receiver.requests.map(({ connection }) => connection);
}

test("a post sends its exact bytes and returns the complete response", async (t) => {
  const reply: Reply = { kind: "status", status: 201, headers: { "X-A": "b" }, body: "hé\n" };
  const receiver = await startReceiver(t, { reply });

  const headers = { "content-type": "application/json", "x-key": "1" };
  const url = new URL(receiver.url("/a/b?c=%20d"));
  const post = postOf({ headers, body: '{"é":1}' });
  const answer = answered(await startClient(t).post(url, post));

  assert.deepEqual([answer.status, answer.headers["x-a"]], [201, "b"]);
  assert.equal(answer.body.toString(), "hé\n");
  const request = await receiver.next();
  assert.deepEqual([request.method, request.url], ["POST", "/a/b?c=%20d"]);
  assert.equal(request.rawBody.toString(), '{"é":1}');
  assert.deepEqual(request.headers, {
    ...headers,
    "accept-encoding": "identity",
    "content-length": "8",
    host: `127.0.0.1:${receiver.port}`,
    connection: "keep-alive",
  });
});

test("a post resolves names as the system does, and connects to IPv6 addresses", async (t) => {
  const four = await startReceiver(t);
  const six = await startReceiver(t, { host: "::1" });
  const client = startClient(t);

  answered(await client.post(new URL(`http://localhost:${four.port}/`), postOf()));
  answered(await client.post(new URL(six.url()), postOf()));

  assert.equal((await four.next()).headers["host"], `localhost:${four.port}`);
  assert.equal((await six.next()).headers["host"], `[::1]:${six.port}`);
});

test("successive posts use one connection for any status", async (t) => {
  const { receiver, postOk } = await setUp(t);

  for (const status of [200, 204, 404, 503, 302, 200]) {
    const body = status === 204 ? "" : "x".repeat(900);
    receiver.answerNext({ kind: "status", status, body });
    await postOk();
  }

  assert.deepEqual([receiver.requests.length, receiver.connectionsSeen], [6, 1]);
});

test("a post waits for one of the client's connections", async (t) => {
  const gate = createGate();
  const reply: Reply = { kind: "held", until: gate.opened, reply: { kind: "status", status: 200 } };
  const { receiver, postOk } = await setUp(t, { reply, socketsMax: 2 });

  const posts = Array.from({ length: 5 }, () => postOk());
  await receiver.waitFor(2);
  assert.equal(receiver.connectionsSeen, 2);
  gate.open();
  await Promise.all(posts);

  assert.deepEqual([receiver.requests.length, receiver.connectionsSeen], [5, 2]);
});

test("a post is repeated once if its reused connection ends without a response", async (t) => {
  for (const kind of ["reset", "close"] as const) {
    const { receiver, post, postOk } = await setUp(t);
    await postOk();
    receiver.answerNext({ kind });
    await postOk();
    assert.deepEqual(connectionsOf(receiver), [1, 1, 2]);

    await postOk();
    receiver.answer({ kind });
    assert.equal((await post()).kind, "unreachable");
    assert.equal(receiver.requests.length, 6);
    // A new connection that ends is not replaced.
    assert.equal((await post()).kind, "unreachable");
    assert.equal(receiver.requests.length, 7);
  }
});

test("a post is not repeated after the begin of its response", async (t) => {
  const { receiver, post, postOk } = await setUp(t);
  await postOk();

  receiver.answerNext(raw(`${OK}Content-Length: 9\r\n\r\nabc`, "reset"));
  assert.equal((await post()).kind, "unreachable");
  assert.equal(receiver.requests.length, 2);
});

test("an idle connection that the server closed is not used", async (t) => {
  const { receiver, postOk } = await setUp(t);
  receiver.answerNext(raw(`${OK}Content-Length: 0\r\n\r\n`));
  await postOk();
  await receiver.whenDisconnected();
  await postOk();

  assert.deepEqual(connectionsOf(receiver), [1, 2]);
});

test("bytes after a response are never read as the next response", async (t) => {
  const head = `${OK}Content-Length: 4\r\n\r\n`;
  const sockets: Socket[] = [];
  const url = await startByteServer(t, (socket, index) => {
    sockets.push(socket);
    const more = index === 0 ? `${head}evil` : "";
    socket.on("data", () => void socket.write(`${head}good${more}`));
  });
  const client = startClient(t);
  const post = async () => answered(await client.post(url, postOf())).body.toString();

  // Together with the response, and later.
  assert.deepEqual([await post(), await post()], ["good", "good"]);
  const idle = sockets[1] ?? assert.fail();
  idle.write(`${head}evil`);
  await once(idle, "close");
  assert.equal(await post(), "good");
  assert.equal(sockets.length, 3);
});

test("an idle connection closes after 4 s, and a silent connection in use stays open", async (t) => {
  const gate = createGate();
  const reply: Reply = { kind: "held", until: gate.opened, reply: { kind: "status", status: 200 } };
  const { receiver, postOk } = await setUp(t, { reply });
  const sockets: Socket[] = [];
  // As the timer of a silent connection does.
  const expire = (): void => void sockets[0]?.emit("timeout");
  const onSocket = (message: unknown): void => {
    sockets.push((message as { readonly socket: Socket }).socket);
  };
  subscribe("net.client.socket", onSocket);
  t.after(() => unsubscribe("net.client.socket", onSocket));

  const answer = postOk();
  await receiver.next();
  expire();
  gate.open();
  await answer;
  assert.equal(receiver.connectionsSeen, 1);
  assert.equal(sockets[0]?.timeout, 4000);
  expire();
  await receiver.whenDisconnected();
});

test("a response of exactly the limit is returned, a longer one is too long", async (t) => {
  const { receiver, post } = await setUp(t);
  for (const length of [1000, 1001]) {
    for (const head of [`Content-Length: ${length}\r\n`, "Connection: close\r\n"]) {
      receiver.answerNext(raw(`${OK}${head}\r\n${"x".repeat(length)}`));
      const answer = await post();
      await receiver.whenDisconnected();
      assert.equal(answer.kind, length === 1000 ? "answered" : "too_long");
      if (answer.kind === "answered") assert.equal(answer.body.length, 1000);
    }
  }
});

test("an endless response is read up to the limit, and its connection closes", async (t) => {
  const { receiver, post } = await setUp(t);
  const chunk = `400\r\n${"x".repeat(1024)}\r\n`;
  for (const [fields, bytes] of [
    ["", "x".repeat(1024)],
    ["Transfer-Encoding: chunked\r\n", chunk],
    [`Content-Length: ${1e15}\r\n`, "x"],
  ] as const) {
    receiver.answerNext({ kind: "flood", head: `${OK}${fields}\r\n`, bytes });
    const answer = await post({ bytesMax: 1_000_000 });
    assert.deepEqual(answer, { kind: "too_long", status: 200 });
    await receiver.whenDisconnected();
  }
});

test("a response in too many small chunks is malformed, and the next is read", async (t) => {
  const receiver = await startReceiver(t);
  const ask = (chunks: number) => {
    const body = `${"1\r\nx\r\n".repeat(chunks)}0\r\n\r\n`;
    receiver.answerNext(raw(`${OK}Transfer-Encoding: chunked\r\n\r\n${body}`));
    return startClient(t).post(new URL(receiver.url()), postOf({ bytesMax: 1_000_000 }));
  };
  const most = TURN_CHUNKS_MAX;

  // Node reuses one parser for successive connections.
  assert.equal(answered(await ask(most)).body.length, most);
  assert.equal((await ask(5 * most)).kind, "malformed");
  assert.equal(answered(await ask(most)).body.length, most);
});

test("a response other than 2xx is its status and the first 8 KiB of its body", async (t) => {
  const { receiver, postOk } = await setUp(t);
  const most = "x".repeat(OTHER_BODY_BYTES_MAX);
  const head = "HTTP/1.1 500 \r\n";
  for (const [reply, expected] of [
    [{ kind: "status", status: 500, body: most }, most],
    [{ kind: "status", status: 500, body: `${most}x` }, most],
    [{ kind: "flood", head: `${head}\r\n`, bytes: "x" }, most],
    // A fault after the status does not change it.
    [raw(`${head}Content-Length: 9\r\n\r\nabc`, "reset"), "abc"],
    [raw(`${head}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n`), "abc"],
  ] as const) {
    receiver.answerNext(reply);
    const { status, body } = await postOk({ bytesMax: 1 });
    assert.deepEqual([status, body.toString()], [500, expected]);
  }
});

test("a redirect is not followed and a body not decompressed", async (t) => {
  const { receiver, postOk } = await setUp(t);
  const packed = gzipSync("[1]");
  receiver.answerNext(
    { kind: "status", status: 307, headers: { location: receiver.url("/other") } },
    { kind: "status", status: 200, headers: { "content-encoding": "gzip" }, body: packed },
  );

  assert.equal((await postOk()).status, 307);
  assert.ok((await postOk()).body.equals(packed));
  assert.equal(receiver.requests.length, 2);
});

test("an unusual but complete response is returned", async (t) => {
  const { receiver, postOk } = await setUp(t);
  const hints = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n";
  const switching = "HTTP/1.1 101 Switching Protocols\r\n";
  for (const [bytes, status, body] of [
    [`${hints}${OK}\r\nok`, 200, "ok"],
    ["HTTP/1.0 200 OK\r\n\r\nok", 200, "ok"],
    ["HTTP/1.1 200\r\n\r\n", 200, ""],
    ["HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n{}", 204, ""],
    [`${OK}Content-Length: 2\r\nConnection: close\r\n\r\nok and more`, 200, "ok"],
    [`${switching}Upgrade: x\r\nConnection: upgrade\r\n\r\nxx`, 101, ""],
    [`${switching}\r\n`, 101, ""],
    ["HTTP/1.1 600 Odd\r\nContent-Length: 0\r\n\r\n", 600, ""],
  ] as const) {
    // The client closes a connection that switched protocols.
    receiver.answerNext(raw(bytes, status !== 101));
    const answer = await postOk();
    assert.deepEqual([answer.status, answer.body.toString()], [status, body], bytes);
    await receiver.whenDisconnected();
  }
});

test("a faulty response is malformed, an incomplete or missing one unreachable", async (t) => {
  const { receiver, post } = await setUp(t);
  const faults: Readonly<Record<"malformed" | "unreachable", readonly Reply[]>> = {
    malformed: [
      raw("SSH-2.0-OpenSSH_9.6\r\n"),
      raw(`${OK}Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx`),
      raw(`${OK}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`),
      raw(`${OK}Transfer-Encoding: chunked\r\n\r\nzz\r\n`),
      raw(`${OK}X: ${"x".repeat(20_000)}\r\n\r\n`),
      { kind: "flood", head: `${OK}X: `, bytes: "x" },
      { kind: "flood", bytes: "HTTP/1.1 103 Early Hints\r\n\r\n" },
    ],
    unreachable: [
      { kind: "close" },
      { kind: "reset" },
      raw("HTTP/1.1 20"),
      raw("HTTP/1.1 20", "reset"),
      raw(`${OK}Content-Length: 9\r\n\r\nabc`),
      raw(`${OK}Content-Length: 9\r\n\r\nabc`, "reset"),
      raw(`${OK}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n`),
      raw(`${OK}\r\nabc`, "reset"),
    ],
  };
  for (const [kind, replies] of Object.entries(faults)) {
    for (const reply of replies) {
      receiver.answerNext(reply);
      assert.equal((await post()).kind, kind, JSON.stringify(reply).slice(0, 100));
      await receiver.whenDisconnected();
    }
  }
  assert.equal(receiver.requests.length, Object.values(faults).flat().length);
  await receiver.close();
  assert.equal((await post()).kind, "unreachable");
});

test("a response before the end of its request is returned", async (t) => {
  const url = await startByteServer(t, (socket) => {
    socket.once("data", () => {
      socket.pause();
      socket.write("HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\n\r\nless");
    });
  });

  const body = Buffer.alloc(64 * 1024 * 1024);
  const answer = answered(await startClient(t).post(url, postOf({ body })));
  assert.deepEqual([answer.status, answer.body.toString()], [413, "less"]);
});

test("an abort ends a post at every stage, and its connection", async (t) => {
  const { receiver, post, postOk } = await setUp(t, { socketsMax: 1 });
  const aborted = { kind: "aborted" } as const;
  assert.deepEqual(await post({ signal: AbortSignal.abort() }), aborted);
  assert.equal(receiver.connectionsSeen, 0);

  const stages: readonly Reply[] = [
    { kind: "hang" },
    raw("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 20", false),
    raw(`${OK}Content-Length: 9\r\n\r\nabc`, false),
    { kind: "drip", head: `${OK}\r\n`, bytes: "x", everyMs: 1 },
  ];
  for (const reply of stages) {
    const abort = new AbortController();
    receiver.answerNext(reply);
    const answer = post({ signal: abort.signal });
    // Waits for the only connection.
    const queued = post({ signal: abort.signal });
    await receiver.next();
    abort.abort();
    assert.deepEqual([await answer, await queued], [aborted, aborted]);
    await receiver.whenDisconnected();
  }
  assert.equal(receiver.requests.length, stages.length);
  await postOk();
});

test("an abort ends a connection attempt that hangs", async (t) => {
  const taken = await startReceiver(t, { host: "127.0.3.1" });
  await taken.close();
  await startBlackHole(t, { host: taken.host, port: taken.port });
  const abort = new AbortController();

  const answer = startClient(t).post(new URL(taken.url()), postOf({ signal: abort.signal }));
  await new Promise((resolve) => setImmediate(resolve));
  abort.abort();

  assert.deepEqual(await answer, { kind: "aborted" });
});

test("an abort after a status other than 2xx keeps the status", async (t) => {
  const gate = createGate();
  const url = await startByteServer(t, (socket) => {
    const bytes = "HTTP/1.1 503 \r\nContent-Length: 9\r\n\r\nabc";
    socket.once("data", () => void socket.write(bytes, () => gate.open()));
  });
  const abort = new AbortController();

  const answer = startClient(t).post(url, postOf({ signal: abort.signal }));
  await gate.opened;
  // The bytes pass through the event loop of this process.
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  abort.abort();

  const { status, body } = answered(await answer);
  assert.deepEqual([status, body.toString()], [503, "abc"]);
});

test("a close ends posts in progress and idle connections", async (t) => {
  const { receiver, client, post, postOk } = await setUp(t);
  await postOk();
  receiver.answerNext({ kind: "hang" });
  const answer = post();
  await receiver.waitFor(2);
  await postOk();

  client.close();

  assert.equal((await answer).kind, "unreachable");
  await receiver.whenDisconnected();
  assert.equal(receiver.requests.length, 3);
});
