import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import type { Socket } from "node:net";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

import {
  OTHER_BODY_BYTES_MAX,
  type ServiceAnswer,
  serviceFailure,
} from "../../src/deliver/service-client.ts";
import { TURN_CHUNKS_MAX } from "../../src/domain/json/chunks.ts";
import { createGate, startReceiver } from "../helpers/receiver.ts";
import type { Reply } from "../helpers/receiver.ts";
import { startBlackHole } from "./black-hole.ts";
import { answered, postOf, startByteServer, startClient } from "./service-post.ts";

const BROKEN_OFF: ServiceAnswer = { kind: "unreachable", error: "answer broke off" };
const CLOSED: ServiceAnswer = {
  kind: "unreachable",
  error: "connection was closed without an answer",
};

/** Bytes of an HTTP answer, closed by the server unless told. */
function raw(bytes: string | Uint8Array, end: boolean | "reset" = true): Reply {
  return { kind: "raw", bytes, end };
}

test("posts what it is given and gives the whole answer", async (t) => {
  const reply: Reply = { kind: "status", status: 201, headers: { "X-A": "b" }, body: "hé\n" };
  const receiver = await startReceiver(t, { reply });
  const client = startClient(t);

  const headers = { "content-type": "application/json", "x-key": "1" };
  const url = new URL(receiver.url("/a/b?c=%20d"));
  const answer = answered(await client.post(url, postOf({ headers, body: '{"é":1}' })));

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

test("resolves names as the system does, and takes IPv6 addresses", async (t) => {
  const four = await startReceiver(t, { reply: { kind: "status", status: 200, body: "4" } });
  const six = await startReceiver(t, {
    host: "::1",
    reply: { kind: "status", status: 200, body: "6" },
  });
  const client = startClient(t);

  const named = await client.post(new URL(`http://localhost:${four.port}/`), postOf());
  const literal = await client.post(new URL(six.url()), postOf());

  assert.equal(answered(named).body.toString(), "4");
  assert.equal((await four.next()).headers["host"], `localhost:${four.port}`);
  assert.equal(answered(literal).body.toString(), "6");
  assert.equal((await six.next()).headers["host"], `[::1]:${six.port}`);
});

test("one request after the other goes over one connection, whatever the status", async (t) => {
  const reply = (_request: unknown, index: number): Reply => ({
    kind: "status",
    status: [200, 204, 404, 503, 302][index % 5] ?? 200,
    body: index % 5 === 1 ? "" : "x".repeat(index * 100),
  });
  const receiver = await startReceiver(t, { reply });
  const client = startClient(t);

  for (let count = 0; count < 20; count++) {
    answered(await client.post(new URL(receiver.url()), postOf({ bytesMax: 10_000 })));
  }

  assert.equal(receiver.requests.length, 20);
  assert.equal(receiver.connectionsSeen, 1);
});

test("no more requests than allowed are under way at once, and the next waits", async (t) => {
  const gate = createGate();
  const held: Reply = { kind: "held", until: gate.opened, reply: { kind: "status", status: 200 } };
  const receiver = await startReceiver(t, { reply: held });
  const client = startClient(t, { socketsMax: 2 });

  const url = new URL(receiver.url());
  const posts = Array.from({ length: 5 }, () => client.post(url, postOf()));
  await receiver.waitFor(2);
  assert.equal(receiver.connectionsSeen, 2);
  gate.open();
  await Promise.all(posts);

  assert.deepEqual([receiver.requests.length, receiver.connectionsSeen], [5, 2]);
});

for (const kind of ["reset", "close"] as const) {
  test(`a kept connection found dead (${kind}) as it is used again is no failure`, async (t) => {
    const receiver = await startReceiver(t, { reply: { kind: "status", status: 200, body: "ok" } });
    const client = startClient(t);
    const url = new URL(receiver.url());
    answered(await client.post(url, postOf()));

    receiver.answerNext({ kind });
    const again = await client.post(url, postOf());

    assert.equal(answered(again).body.toString(), "ok");
    const used = receiver.requests.map(({ connection }) => connection);
    assert.deepEqual(used, [1, 1, 2]);
  });
}

test("a kept connection found dead is replaced once: what follows is a failure", async (t) => {
  const receiver = await startReceiver(t);
  const client = startClient(t);
  const url = new URL(receiver.url());
  answered(await client.post(url, postOf()));

  receiver.answer({ kind: "reset" });
  assert.deepEqual(await client.post(url, postOf()), CLOSED);
  assert.equal(receiver.requests.length, 3);
  // A new connection that breaks is a failure at once.
  assert.deepEqual(await client.post(url, postOf()), CLOSED);
  assert.equal(receiver.requests.length, 4);
});

test("a request that was answered in part is not sent again by itself", async (t) => {
  const receiver = await startReceiver(t);
  const client = startClient(t);
  const url = new URL(receiver.url());
  answered(await client.post(url, postOf()));

  receiver.answerNext(raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "reset"));
  assert.deepEqual(await client.post(url, postOf()), BROKEN_OFF);
  assert.equal(receiver.requests.length, 2);
});

test("an idle connection that the server has closed is not used", async (t) => {
  const receiver = await startReceiver(t);
  const client = startClient(t);
  const url = new URL(receiver.url());
  receiver.answerNext(raw("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  answered(await client.post(url, postOf()));
  await receiver.whenDisconnected();

  answered(await client.post(url, postOf()));
  const used = receiver.requests.map(({ connection }) => connection);
  assert.deepEqual(used, [1, 2]);
});

test("bytes that follow an answer unasked are never taken for the next one", async (t) => {
  const head = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n";
  const sockets: Socket[] = [];
  const url = await startByteServer(t, (socket, index) => {
    sockets.push(socket);
    const more = index === 0 ? `${head}evil` : "";
    socket.on("data", () => void socket.write(`${head}good${more}`));
  });
  const client = startClient(t);

  // With the answer itself, and a moment after it.
  assert.equal(answered(await client.post(url, postOf())).body.toString(), "good");
  assert.equal(answered(await client.post(url, postOf())).body.toString(), "good");
  const idle = sockets[1] ?? assert.fail();
  idle.write(`${head}evil`);
  await once(idle, "close");
  assert.equal(answered(await client.post(url, postOf())).body.toString(), "good");
  assert.equal(sockets.length, 3);
});

test("an idle connection is closed after a time; a service that works in silence keeps its own", async (t) => {
  const gate = createGate();
  const reply: Reply = { kind: "status", status: 200, body: "ok" };
  const receiver = await startReceiver(t, { reply: { kind: "held", until: gate.opened, reply } });
  const client = startClient(t);
  // What its timer does when a connection has been silent for so long.
  const sockets: Socket[] = [];
  const expire = (): void => void sockets[0]?.emit("timeout");
  const onSocket = (message: unknown): void => {
    sockets.push((message as { readonly socket: Socket }).socket);
  };
  subscribe("net.client.socket", onSocket);
  t.after(() => unsubscribe("net.client.socket", onSocket));

  const answer = client.post(new URL(receiver.url()), postOf());
  await receiver.next();
  expire();
  gate.open();
  assert.equal(answered(await answer).body.toString(), "ok");
  assert.equal(receiver.connectionsSeen, 1);
  assert.equal(sockets[0]?.timeout, 4000);
  expire();
  await receiver.whenDisconnected();
});

test("an answer of exactly the limit is taken, a byte more is too long", async (t) => {
  const receiver = await startReceiver(t);
  const client = startClient(t);
  const url = new URL(receiver.url());
  const heads = [
    (length: number) => `Content-Length: ${length}\r\n\r\n`,
    () => "Connection: close\r\n\r\n",
  ];
  for (const head of heads) {
    for (const length of [1000, 1001]) {
      receiver.answerNext(raw(`HTTP/1.1 200 OK\r\n${head(length)}${"x".repeat(length)}`));
      const answer = await client.post(url, postOf());
      await receiver.whenDisconnected();
      const expected = length === 1000 ? "answered" : "too_long";
      assert.equal(answer.kind, expected);
      if (answer.kind === "answered") assert.equal(answer.body.length, 1000);
    }
  }
});

test("of an endless answer no more than the limit is read, and the connection is gone", async (t) => {
  const chunk = `400\r\n${"x".repeat(1024)}\r\n`;
  const floods: readonly Reply[] = [
    { kind: "flood", head: "HTTP/1.1 200 OK\r\n\r\n", bytes: "x".repeat(1024) },
    { kind: "flood", head: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", bytes: chunk },
    { kind: "flood", head: `HTTP/1.1 200 OK\r\nContent-Length: ${1e15}\r\n\r\n`, bytes: "x" },
  ];
  const receiver = await startReceiver(t);
  const client = startClient(t);

  for (const flood of floods) {
    receiver.answerNext(flood);
    const answer = await client.post(new URL(receiver.url()), postOf({ bytesMax: 1_000_000 }));
    assert.deepEqual(answer, { kind: "too_long", status: 200 });
    await receiver.whenDisconnected();
  }
});

test("an answer may come in so many small chunks at once and not in some more, and the next is read as ever", async (t) => {
  const receiver = await startReceiver(t);
  const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  const ask = (chunks: number) => {
    receiver.answerNext(raw(`${head}${"1\r\nx\r\n".repeat(chunks)}0\r\n\r\n`));
    return startClient(t).post(new URL(receiver.url()), postOf({ bytesMax: 1_000_000 }));
  };
  const most = TURN_CHUNKS_MAX;

  assert.equal(answered(await ask(most)).body.length, most);
  assert.deepEqual(await ask(5 * most), { kind: "malformed", error: "too many small chunks" });
  // Node has one parser for one connection after the other.
  assert.equal(answered(await ask(most)).body.length, most);
});

test("an answer that is no 2xx is its status and the first 8 KiB", async (t) => {
  const receiver = await startReceiver(t);
  const client = startClient(t);
  const url = new URL(receiver.url());
  const text = "x".repeat(OTHER_BODY_BYTES_MAX + 1);
  const cut: readonly [Reply, string][] = [
    [{ kind: "status", status: 500, body: text.slice(1) }, text.slice(1)],
    [{ kind: "status", status: 500, body: text }, text.slice(1)],
    [{ kind: "flood", head: "HTTP/1.1 500 \r\n\r\n", bytes: "x" }, text.slice(1)],
    // What breaks off behind the status changes nothing about it.
    [raw("HTTP/1.1 500 \r\nContent-Length: 9\r\n\r\nabc", "reset"), "abc"],
    [raw("HTTP/1.1 500 \r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n"), "abc"],
  ];

  for (const [reply, expected] of cut) {
    receiver.answerNext(reply);
    const answer = answered(await client.post(url, postOf({ bytesMax: 1 })));
    assert.equal(answer.status, 500);
    assert.equal(answer.body.toString(), expected);
  }
});

test("a redirect is not followed and nothing is decompressed", async (t) => {
  const receiver = await startReceiver(t);
  const client = startClient(t);
  const url = new URL(receiver.url());
  const packed = gzipSync("[1]");

  receiver.answerNext(
    { kind: "status", status: 307, headers: { location: receiver.url("/other") } },
    { kind: "status", status: 200, headers: { "content-encoding": "gzip" }, body: packed },
  );
  const redirect = answered(await client.post(url, postOf()));
  const answer = answered(await client.post(url, postOf()));

  assert.deepEqual([redirect.status, answer.status], [307, 200]);
  assert.ok(answer.body.equals(packed));
  assert.equal(receiver.requests.length, 2);
});

test("answers that came whole are taken, however odd", async (t) => {
  const receiver = await startReceiver(t);
  const client = startClient(t);
  const odd: readonly [string, number, string][] = [
    [
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n\r\nok",
      200,
      "ok",
    ],
    ["HTTP/1.0 200 OK\r\n\r\nok", 200, "ok"],
    ["HTTP/1.1 200\r\n\r\n", 200, ""],
    ["HTTP/1.1 204 No Content\r\n\r\n", 204, ""],
    // Bodies where none may be: as sloppy services write them.
    ["HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n{}", 204, ""],
    ["HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok and more", 200, "ok"],
    ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 200, "ok"],
    ["HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nxx", 101, ""],
    ["HTTP/1.1 101 Switching Protocols\r\n\r\n", 101, ""],
    ["HTTP/1.1 600 Odd\r\nContent-Length: 0\r\n\r\n", 600, ""],
  ];

  for (const [bytes, status, body] of odd) {
    // What speaks another protocol from here on is hung up on.
    receiver.answerNext(raw(bytes, status !== 101));
    const answer = answered(await client.post(new URL(receiver.url()), postOf()));
    assert.deepEqual([answer.status, answer.body.toString()], [status, body], bytes);
    await receiver.whenDisconnected();
  }
});

test("what is no HTTP is told from what did not come", async (t) => {
  const receiver = await startReceiver(t);
  const client = startClient(t);
  const ok = "HTTP/1.1 200 OK\r\n";
  const malformed = (error: string): ServiceAnswer => ({ kind: "malformed", error });
  const noHttp = malformed("answer is not valid HTTP");
  const headers = malformed("answer's headers are too large");
  const cases: readonly [Reply, ServiceAnswer][] = [
    [raw("hello\n"), noHttp],
    [raw("SSH-2.0-OpenSSH_9.6\r\n"), noHttp],
    [raw(`${ok}Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx`), noHttp],
    [raw(`${ok}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`), noHttp],
    [raw(`${ok}Transfer-Encoding: chunked\r\n\r\nzz\r\n`), noHttp],
    [raw(`${ok}X: ${"x".repeat(20_000)}\r\n\r\n`), headers],
    [{ kind: "flood", head: `${ok}X: `, bytes: "x" }, headers],
    [
      { kind: "flood", bytes: "HTTP/1.1 103 Early Hints\r\n\r\n" },
      malformed("too many informational answers"),
    ],
    [{ kind: "close" }, CLOSED],
    [{ kind: "reset" }, CLOSED],
    [raw("HTTP/1.1 20"), CLOSED],
    [raw("HTTP/1.1 20", "reset"), CLOSED],
    [raw(`${ok}Content-Length: 9\r\n\r\nabc`), BROKEN_OFF],
    [raw(`${ok}Content-Length: 9\r\n\r\nabc`, "reset"), BROKEN_OFF],
    [raw(`${ok}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n`), BROKEN_OFF],
    [raw(`${ok}\r\nabc`, "reset"), BROKEN_OFF],
  ];

  for (const [reply, expected] of cases) {
    receiver.answerNext(reply);
    const answer = await client.post(new URL(receiver.url()), postOf());
    assert.deepEqual(answer, expected, JSON.stringify(reply).slice(0, 100));
    await receiver.whenDisconnected();
  }
  assert.equal(receiver.requests.length, cases.length);
});

test("a port where nobody listens and a name that is none are said in fixed words", async (t) => {
  const receiver = await startReceiver(t);
  const client = startClient(t);
  await receiver.close();

  const refused = await client.post(new URL(receiver.url()), postOf());
  assert.deepEqual(refused, { kind: "unreachable", error: "connection was refused" });

  const failure = (code: string): unknown =>
    serviceFailure(Object.assign(new Error("127.0.0.1"), { code }), { hasBegun: false });
  const cases: readonly [string, string][] = [
    ["ENOTFOUND", "name not found"],
    ["EAI_AGAIN", "name server did not answer"],
    ["EHOSTUNREACH", "host cannot be reached"],
    ["EPROTO", "TLS handshake failed"],
    ["EWHATEVER", "connection failed"],
    ["ERR_SSL_WRONG_VERSION_NUMBER", "TLS failed"],
  ];
  for (const [code, error] of cases) {
    assert.deepEqual(failure(code), { kind: "unreachable", error }, code);
  }
});

test("an answer to a request that is half sent is taken, and its connection is not", async (t) => {
  const url = await startByteServer(t, (socket) => {
    socket.once("data", () => {
      socket.pause();
      socket.write("HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\n\r\nless");
    });
  });
  const client = startClient(t);

  const body = Buffer.alloc(64 * 1024 * 1024);
  const answer = answered(await client.post(url, postOf({ body })));
  assert.deepEqual([answer.status, answer.body.toString()], [413, "less"]);
});

test("an abort ends a request at every stage, and its connection", async (t) => {
  const receiver = await startReceiver(t);
  const client = startClient(t, { socketsMax: 1 });
  const url = new URL(receiver.url());
  const aborted: ServiceAnswer = { kind: "aborted" };
  assert.deepEqual(await client.post(url, postOf({ signal: AbortSignal.abort() })), aborted);
  assert.equal(receiver.connectionsSeen, 0);

  const stages: readonly Reply[] = [
    { kind: "hang" },
    raw("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 20", false),
    raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", false),
    { kind: "drip", head: "HTTP/1.1 200 OK\r\n\r\n", bytes: "x", everyMs: 1 },
  ];
  for (const reply of stages) {
    const abort = new AbortController();
    receiver.answerNext(reply);
    const answer = client.post(url, postOf({ signal: abort.signal }));
    // Waits for the only place.
    const queued = client.post(url, postOf({ signal: abort.signal }));
    await receiver.next();
    abort.abort();
    assert.deepEqual([await answer, await queued], [aborted, aborted]);
    await receiver.whenDisconnected();
  }
  assert.equal(receiver.requests.length, stages.length);
  assert.equal(answered(await client.post(url, postOf())).status, 204);
});

test("an abort ends a connection that is still to come about", async (t) => {
  const taken = await startReceiver(t, { host: "127.0.3.1" });
  await taken.close();
  await startBlackHole(t, { host: taken.host, port: taken.port });
  const client = startClient(t);
  const abort = new AbortController();

  const answer = client.post(new URL(taken.url()), postOf({ signal: abort.signal }));
  await new Promise((resolve) => setImmediate(resolve));
  abort.abort();

  assert.deepEqual(await answer, { kind: "aborted" });
});

test("an abort behind the status of an answer that is no 2xx leaves the status", async (t) => {
  const bytes = "HTTP/1.1 503 \r\nContent-Length: 9\r\n\r\nabc";
  const gate = createGate();
  const url = await startByteServer(t, (socket) => {
    socket.once("data", () => void socket.write(bytes, () => gate.open()));
  });
  const client = startClient(t);
  const abort = new AbortController();

  const answer = client.post(url, postOf({ signal: abort.signal }));
  await gate.opened;
  // The bytes are on their way through this very process.
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  abort.abort();

  const { status, body } = answered(await answer);
  assert.deepEqual([status, body.toString()], [503, "abc"]);
});

test("a close ends what is under way and what is idle", async (t) => {
  const receiver = await startReceiver(t);
  const client = startClient(t);
  const url = new URL(receiver.url());
  answered(await client.post(url, postOf()));
  receiver.answerNext({ kind: "hang" });
  // Over the connection of the first, so that it is not taken for one that the server closed.
  const answer = client.post(url, postOf());
  await receiver.waitFor(2);
  answered(await client.post(url, postOf()));

  client.close();

  assert.deepEqual(await answer, CLOSED);
  await receiver.whenDisconnected();
  assert.equal(receiver.requests.length, 3);
});
