import assert from "node:assert/strict";
import { channel } from "node:diagnostics_channel";
import type { Server } from "node:http";
import { test, type TestContext } from "node:test";
import { setImmediate } from "node:timers/promises";

import { startTestDaemon } from "../helpers/daemon.ts";
import { headerOf, openRaw, toBytes } from "../helpers/raw-http.ts";
import type { RawRequest } from "../helpers/raw-http.ts";
import { ask, askOn, bearer, complaints, JSON_TYPE, posting, TASK_POST } from "./answer.ts";
import { TASKS_READY, toAnswer } from "./answer.ts";

const CHUNKED = "Transfer-Encoding: chunked";

// Hosts that a URL parser refuses, and hosts that are known to confuse servers.
const HOSTS = [
  "a:99999 a:65536 1.2.3.999 1.2.3.4.5 256.1 0x.0x [::::] [1.2.3.4] [::1 [ ] a:b : :80 a: a:-1".split(
    " ",
  ),
  "xn--a a..b . - _ a/b a?b a#b a\\b a@b u:p@a a,b a;b %00 %zz a%2fb ' \" <x> {} $id __proto__".split(
    " ",
  ),
  ["evil.example", "127.0.0.1:8787", "", "a b", "a\tb", "\xff", "\xe2\x82\xac"],
  ["a".repeat(300), `${"a".repeat(70)}.b`, "1".repeat(15_000)],
].flat();

// Paths for which the URL is built from its parts.
const PATHS = ["/livez", "/{}", "/%2e/livez", "/\\x"];

test("no Host header changes a response", async (t) => {
  const daemon = await startTestDaemon(t);
  const connection = await openRaw(t, daemon.url);
  for (const target of PATHS) {
    const { response: plain } = await askOn(connection, { target });
    for (const host of HOSTS) {
      const { response } = await askOn(connection, {
        target,
        host: false,
        headers: [`Host: ${host}`],
      });
      assert.equal(response.status, plain.status, `${host} ${target}`);
      assert.equal(response.body.toString(), plain.body.toString());
    }
  }
  const forwarded = ["X-Forwarded-Host: a:99999", "X-Forwarded-Proto: https", "Forwarded: host=["];
  assert.equal((await ask(daemon.url, { target: "/{}", headers: forwarded })).code, 40400);
  assert.deepEqual(complaints(daemon), []);
});

test("HTTP/1.1 requires one Host header, HTTP/1.0 at most one", async (t) => {
  const daemon = await startTestDaemon(t);
  const none = await ask(daemon.url, { host: false });
  const two = await ask(daemon.url, { headers: ["Host: 127.0.0.1"] });
  const wrong = await ask(daemon.url, { target: "/nothing", host: false });
  assert.deepEqual([none.code, two.code, wrong.code], [40000, 40000, 40400]);
  const old = [
    ["GET /livez HTTP/1.0\r\n\r\n", 200],
    ["GET /livez HTTP/1.0\r\nHost: a\r\n\r\n", 200],
    ["GET /livez HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400],
  ] as const;
  for (const [bytes, status] of old) {
    const connection = await openRaw(t, daemon.url);
    connection.send(bytes);
    assert.equal(toAnswer(await connection.next()).response.status, status);
    await connection.closed();
  }
});

test("a target in absolute form is its path, and any other form is 404", async (t) => {
  const daemon = await startTestDaemon(t);
  const cases = [
    ["http://evil.example/livez", 200],
    ["HTTPS://user:pass@evil.example:1/livez#y", 200],
    ["HTTPS://user:pass@evil.example:1/livez?x#y", 400],
    ["http://evil.example/v1/tasks/tasks_ready", 401],
    ["http://evil.example/x/../livez", 200],
    ["http://evil.example", 404],
    ["http://a:99999/livez", 404],
    ["http://[::::]/livez", 404],
    ["foo://1.2.3.999/{}", 404],
    ["foo://a/livez", 404],
    ["foo://%00/livez%41", 404],
    ["file:///livez", 404],
    ["*", 404],
  ] as const;
  for (const [target, status] of cases) {
    const { response } = await ask(daemon.url, { target });
    assert.equal(response.status, status, target);
  }
  const options = await ask(daemon.url, { method: "OPTIONS", target: "*" });
  assert.equal(options.code, 40400);
});

test("TRACE echoes nothing, CONNECT opens nothing and an upgrade is ignored", async (t) => {
  const daemon = await startTestDaemon(t);
  const trace = await ask(daemon.url, { method: "TRACE", headers: ["X-Secret: SECRET"] });
  assert.equal(trace.code, 40500);
  assert.doesNotMatch(trace.response.body.toString(), /SECRET/);
  for (const target of ["127.0.0.1:1", "evil.example:443"]) {
    const connection = await openRaw(t, daemon.url);
    connection.send(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`);
    assert.equal((await connection.closed()).length, 0);
  }
  for (const protocol of ["websocket", "h2c", "TLS/1.0"]) {
    const headers = ["Connection: Upgrade, HTTP2-Settings", `Upgrade: ${protocol}`];
    assert.equal((await ask(daemon.url, { headers })).response.status, 200);
  }
  assert.equal((await ask(daemon.url, {})).response.status, 200);
});

// Two servers in a row may read these as different numbers of requests; `xx` is the start of a second one.
const AMBIGUOUS: readonly (readonly [string, readonly string[], string])[] = [
  ["Content-Length and Transfer-Encoding", ["Content-Length: 5", CHUNKED], "0\r\n\r\nxx"],
  ["Transfer-Encoding and Content-Length", [CHUNKED, "Content-Length: 2"], "2\r\n{}\r\n0\r\n\r\n"],
  ["two lengths", ["Content-Length: 2", "Content-Length: 3"], "{}x"],
  ["one length twice", ["Content-Length: 2", "Content-Length: 2"], "{}"],
  ["a list of lengths", ["Content-Length: 2, 2"], "{}"],
  ["a signed length", ["Content-Length: +2"], "{}"],
  ["a negative length", ["Content-Length: -2"], "{}"],
  ["a length in hex", ["Content-Length: 0x2"], "{}"],
  ["a fraction of a length", ["Content-Length: 2.0"], "{}"],
  ["a length beyond 64 bits", ["Content-Length: 18446744073709551618"], "{}"],
  ["an empty length", ["Content-Length:"], "{}"],
  ["white space before the colon", ["Content-Length : 2"], "{}"],
  ["an unknown coding", ["Transfer-Encoding: xchunked"], "0\r\n\r\n"],
  ["chunked not last", ["Transfer-Encoding: chunked, identity"], "0\r\n\r\n"],
  ["chunked twice", ["Transfer-Encoding: chunked, chunked"], "2\r\n{}\r\n0\r\n\r\n"],
  ["chunked on two lines", [CHUNKED, CHUNKED], "2\r\n{}\r\n0\r\n\r\n"],
  ["identity", ["Transfer-Encoding: identity"], "{}"],
  ["a control character before it", ["Transfer-Encoding: \x0bchunked"], "2\r\n{}\r\n0\r\n\r\n"],
  ["a quoted coding", ['Transfer-Encoding: "chunked"'], "2\r\n{}\r\n0\r\n\r\n"],
  ["a line folded", ["X-Fold: a", " b", "Content-Length: 2"], "{}"],
  ["a length folded", ["Content-Length:", " 2"], "{}"],
  ["a bare LF between headers", ["X-A: b\nContent-Length: 2"], "{}"],
  ["a bare CR in a header", ["X-A: b\rContent-Length: 2"], "{}"],
  ["a NUL in a header", ["X-A: b\x00c", "Content-Length: 2"], "{}"],
  ["a header without a name", [": x", "Content-Length: 2"], "{}"],
  ["a header without a colon", ["nonsense", "Content-Length: 2"], "{}"],
  ["a space in a header's name", ["X A: b", "Content-Length: 2"], "{}"],
  ["a byte beyond ASCII in a name", ["X\xff: b", "Content-Length: 2"], "{}"],
  ["a chunk's size not in hex", [CHUNKED], "zz\r\n{}\r\n0\r\n\r\n"],
  ["a chunk's size signed", [CHUNKED], "+2\r\n{}\r\n0\r\n\r\n"],
  ["a chunk's size with 0x", [CHUNKED], "0x2\r\n{}\r\n0\r\n\r\n"],
  ["a chunk's size beyond 64 bits", [CHUNKED], "10000000000000002\r\n{}\r\n0\r\n\r\n"],
  ["a chunk longer than its size", [CHUNKED], "2\r\n{}x\r\n0\r\n\r\n"],
  ["a chunk's size ended by a bare LF", [CHUNKED], "2\n{}\r\n0\r\n\r\n"],
  ["a chunk ended by a bare LF", [CHUNKED], "2\r\n{}\n0\r\n\r\n"],
  ["chunk extensions without end", [CHUNKED], `2;${"a".repeat(20_000)}\r\n{}\r\n0\r\n\r\n`],
  ["trailers without end", [CHUNKED], `2\r\n{}\r\n0\r\nX: ${"a".repeat(20_000)}\r\n\r\n`],
];

test("an ambiguous request is refused and its connection closed", async (t) => {
  const daemon = await startTestDaemon(t);
  for (const [shape, headers, body] of AMBIGUOUS) {
    const connection = await openRaw(t, daemon.url);
    const lines = [bearer(daemon), JSON_TYPE, ...headers];
    connection.send(toBytes({ method: "POST", target: TASK_POST, headers: lines }));
    connection.send(body);
    connection.send(toBytes({ target: "/livez" }));

    const { response, code } = toAnswer(await connection.next());
    assert.equal(code, 40000, shape);
    assert.equal(headerOf(response, "connection"), "close");
    assert.equal((await connection.closed()).length, 0, `${shape}: a second response came`);
    assert.equal((await ask(daemon.url, posting(daemon, "[]"))).code, 40502);
  }
  await daemon.daemon.idle();
  assert.equal((await daemon.ready()).tasks_count, 0);
  assert.deepEqual(complaints(daemon), []);
});

test("chunk extensions, trailers and unusual spellings of a length are read", async (t) => {
  const daemon = await startTestDaemon(t);
  const connection = await openRaw(t, daemon.url);
  const bodies = [
    [CHUNKED, "2;a=b\r\n{}\r\n0;last\r\n\r\n"],
    [CHUNKED, '2;a="b;c"\r\n{}\r\n0\r\n\r\n'],
    [CHUNKED, "2\r\n{}\r\n0\r\nAuthorization: Bearer x\r\nX: y\r\n\r\n"],
    [CHUNKED, "0000002\r\n{}\r\n000\r\n\r\n"],
    ["Transfer-Encoding: ChUnKeD", "2\r\n{}\r\n0\r\n\r\n"],
    ["Content-Length: 00000002", "{}"],
    ["Content-Length:2\t", "{}"],
  ] as const;
  for (const [how, body] of bodies) {
    const headers = [bearer(daemon), JSON_TYPE, how];
    const got = await askOn(connection, { method: "POST", target: TASK_POST, headers, body });
    assert.equal(got.code, 20000, body);
  }
  connection.send("\r\n");
  assert.equal((await askOn(connection, {})).response.status, 200);
});

test("bytes that are not a request are 40000 and their connection is closed", async (t) => {
  const daemon = await startTestDaemon(t);
  const host = "\r\nHost: a\r\n\r\n";
  const lines = [
    "GET /livez HTTP/9.9",
    "get /livez HTTP/1.1",
    "GET /livez HTTP/1.1 x",
    "GET /li vez HTTP/1.1",
  ];
  lines.push("GET livez HTTP/1.1", "GET /liv\x00ez HTTP/1.1", "GET /liv\xe9z HTTP/1.1");
  lines.push("NONSENSE /livez HTTP/1.1", `GET /${"x".repeat(20_000)} HTTP/1.1`);
  const garbage = [
    ...lines.map((line) => line + host),
    ...["nonsense", "GET", "GET /livez", "POST/HTTP/1.1", "G\x00T / HTTP/1.1"].map(
      (line) => `${line}\r\n\r\n`,
    ),
    ...[
      "\x16\x03\x01\x02\x00",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "\x80\x9e\x01\x03\x01",
      "\xff\xfe",
    ],
    ...["SSH-2.0-OpenSSH_9.9\r\n", "EHLO a\r\n", "*1\r\n$4\r\nPING\r\n", "{}", "<x/>"],
    "GET /livez HTTP/1.1\nHost: a\n\n",
  ];
  for (const bytes of garbage) {
    const connection = await openRaw(t, daemon.url);
    connection.send(bytes);
    assert.equal(toAnswer(await connection.next()).code, 40000, bytes.slice(0, 60));
    assert.equal((await connection.closed()).length, 0);
  }
  assert.equal((await ask(daemon.url, {})).response.status, 200);
  assert.deepEqual(complaints(daemon), []);
});

test("garbage after a request does not replace that request's response", async (t) => {
  const daemon = await startTestDaemon(t);
  const connection = await openRaw(t, daemon.url);
  connection.send(Buffer.concat([toBytes(posting(daemon, "{}")), Buffer.from("nonsense\r\n\r\n")]));
  const first = toAnswer(await connection.next());
  const second = toAnswer(await connection.next());

  assert.deepEqual([first.code, second.code], [20000, 40000]);
  assert.equal((await connection.closed()).length, 0);
});

test("a broken body after a pending request refuses neither", async (t) => {
  const daemon = await startTestDaemon(t);
  const connection = await openRaw(t, daemon.url);
  const headers = [bearer(daemon), JSON_TYPE, CHUNKED];
  const broken = toBytes({ method: "POST", target: TASK_POST, headers, body: "zz\r\n" });
  connection.send(Buffer.concat([toBytes(posting(daemon, "{}")), broken]));
  const rest = (await connection.closed()).toString();

  // The task of the first request is stored, so its response is not a refusal.
  assert.doesNotMatch(rest.split("HTTP/1.1 ")[1] ?? "", /^4/);
  // Writes are made in their order: the task is stored before the next post.
  await daemon.post("{}");
  await daemon.daemon.idle();
  assert.equal((await daemon.ready()).tasks_count, 2);
});

test("a body that breaks after its response gets no second response", async (t) => {
  const daemon = await startTestDaemon(t);
  const connection = await openRaw(t, daemon.url);
  connection.send(toBytes({ method: "POST", target: TASK_POST, headers: [CHUNKED] }));
  assert.equal(toAnswer(await connection.next()).code, 40100);
  connection.send("zz\r\n");

  assert.equal((await connection.closed()).length, 0);
});

test("headers over 16 KiB are refused", async (t) => {
  const daemon = await startTestDaemon(t);
  const fits = await ask(daemon.url, { headers: [`X-A: ${"a".repeat(15_000)}`] });
  assert.equal(fits.response.status, 200);
  const many = Array.from({ length: 90 }, (_, i) => `X-${i}: ${i}`);
  assert.equal((await ask(daemon.url, { headers: many })).response.status, 200);
  for (const headers of [
    [`X-A: ${"a".repeat(17_000)}`],
    [`${"X".repeat(17_000)}: a`],
    Array.from({ length: 3000 }, (_, i) => `X-${i}: ${i}`),
  ]) {
    assert.equal((await ask(daemon.url, { headers })).code, 40000);
  }
  assert.equal((await ask(daemon.url, {})).response.status, 200);
});

/** The HTTP server behind a daemon of this process. */
async function serverOf(t: TestContext, url: string): Promise<Server> {
  const started = channel("http.server.request.start");
  const { promise, resolve } = Promise.withResolvers<Server>();
  const onStart = (message: unknown): void => resolve((message as { server: Server }).server);
  started.subscribe(onStart);
  t.after(() => started.unsubscribe(onStart));
  await ask(url, {});
  return promise;
}

function connectionsOf(server: Server): Promise<number> {
  return new Promise((resolve, reject) =>
    server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
  );
}

test("idle connections end after one to two minutes, and a request has 100 headers at most", async (t) => {
  const server = await serverOf(t, (await startTestDaemon(t)).url);

  assert.ok(server.keepAliveTimeout > 60_000 && server.keepAliveTimeout < 120_000);
  assert.equal(server.maxHeadersCount, 100);
});

test("a client that disconnects within a request leaves no connection, no task and no complaint", async (t) => {
  const daemon = await startTestDaemon(t);
  const server = await serverOf(t, daemon.url);
  const key = bearer(daemon);
  const post = { method: "POST", target: TASK_POST };
  const starts: readonly Buffer[] = [
    Buffer.from("GET /liv"),
    Buffer.from(`POST ${TASK_POST} HTTP/1.1\r\nHost: a\r\n${key}\r\nContent-`),
    toBytes({ ...post, headers: [key, JSON_TYPE, "Content-Length: 1000"], body: '[{"input":"' }),
    toBytes({ ...post, headers: [key, JSON_TYPE, CHUNKED], body: "a\r\n[{" }),
    toBytes({ ...post, headers: [key, JSON_TYPE, CHUNKED], body: "4\r\n[{}]\r\n" }),
    toBytes({ ...post, headers: [JSON_TYPE, "Content-Length: 1000"], body: "[" }),
    toBytes({
      ...post,
      headers: [key, JSON_TYPE, "Content-Length: 900000"],
      body: "x".repeat(99_999),
    }),
  ];
  for (const bytes of starts) {
    for (const goAway of ["reset", "end"] as const) {
      const connection = await openRaw(t, daemon.url);
      const accepted = new Promise<void>((resolve) =>
        server.once("connection", (socket) => socket.once("close", () => resolve())),
      );
      const second = await openRaw(t, daemon.url);
      connection.send(bytes);
      second.send(bytes);
      connection[goAway]();
      second[goAway]();
      await accepted;
    }
  }
  while ((await connectionsOf(server)) > 0) await setImmediate();
  await daemon.daemon.idle();
  assert.equal((await daemon.ready()).tasks_count, 0);
  assert.deepEqual(complaints(daemon), []);
});

test("a post survives a client that disconnects before the response", async (t) => {
  const daemon = await startTestDaemon(t);
  for (let i = 0; i < 20; i++) {
    const connection = await openRaw(t, daemon.url);
    connection.send(toBytes(posting(daemon, `{"tag":"${i}"}`)));
    // After a response on another connection the server has read the whole request.
    await ask(daemon.url, posting(daemon, '{"tag":"seen"}'));
    connection.reset();
  }
  await daemon.daemon.idle();
  const { tasks } = await daemon.ready("?limit=1000");
  assert.equal(tasks.filter(({ data }) => data["tag"] === "seen").length, 20);
  assert.equal(tasks.length, 40);
  assert.deepEqual(complaints(daemon), []);
});

test("each response has a request id of its own, on one connection too", async (t) => {
  const daemon = await startTestDaemon(t);
  const requests: readonly RawRequest[] = [
    { target: "/readyz" },
    { method: "HEAD", target: "/livez" },
    { target: "/%zz" },
    { method: "DELETE", target: "/livez" },
    { target: TASKS_READY },
    posting(daemon, "[{}]"),
    posting(daemon, "["),
  ];
  const connection = await openRaw(t, daemon.url);
  const seen: string[] = [];
  for (const request of requests) {
    seen.push((await ask(daemon.url, request)).requestId);
    seen.push((await askOn(connection, request)).requestId);
  }
  connection.send("nonsense\r\n\r\n");
  seen.push(headerOf(await connection.next(), "x-request-id") ?? "");

  assert.equal(new Set(seen).size, 2 * requests.length + 1);
});
