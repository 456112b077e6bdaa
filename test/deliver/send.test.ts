import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

import { createFakeClock } from "../helpers/fake-clock.ts";
import { toChunks } from "../helpers/raw-http.ts";
import { createGate, startReceiver } from "../helpers/receiver.ts";
import { startTrap } from "../helpers/trap.ts";
import { requestTo, startSender, toTarget } from "./sender-setup.ts";

test("a POST arrives with its exact body, its headers, and three headers of the sender", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 200, body: "ok" } });
  const sender = startSender(t);
  const body = '{"tag":"é\u2028","id":1.0}';

  const result = await sender.send(
    requestTo(receiver.url("/hook"), {
      headers: { "Content-Type": "application/json", "X-Attempt": "1" },
      body,
    }),
  );

  const request = await receiver.next();
  assert.equal(request.method, "POST");
  assert.equal(request.rawBody.toString("utf8"), body);
  assert.deepEqual(request.rawHeaders, [
    ...["Host", `127.0.0.1:${receiver.port}`],
    ...["Content-Type", "application/json", "X-Attempt", "1"],
    ...["Content-Length", String(Buffer.byteLength(body)), "Connection", "keep-alive"],
  ]);
  assert.deepEqual(
    { ...result, phases: null },
    {
      outcome: "delivered",
      httpStatus: 200,
      error: null,
      address: "127.0.0.1",
      phases: null,
      responseExcerpt: "ok",
      refusal: null,
      retryAfter: null,
    },
  );
});

test("a GET has no body and no Content-Length", async (t) => {
  const receiver = await startReceiver(t);

  await startSender(t).send(requestTo(receiver.url("/ping?a=1"), { method: "GET", body: null }));

  const request = await receiver.next();
  assert.equal(request.method, "GET");
  assert.equal(request.url, "/ping?a=1");
  assert.deepEqual(Object.keys(request.headers), ["host", "connection"]);
});

test("a body of bytes and a body of 1 MiB arrive complete", async (t) => {
  const receiver = await startReceiver(t);
  const sender = startSender(t);
  const bytes = new Uint8Array(1_048_576).map((_, index) => index % 251);

  await sender.send(requestTo(receiver.url(), { body: bytes }));
  await sender.send(requestTo(receiver.url(), { body: "é".repeat(524_288) }));

  const [first, second] = await receiver.waitFor(2);
  assert(first?.rawBody.equals(bytes));
  assert.equal(second?.rawBody.toString(), "é".repeat(524_288));
});

test("a target or a header that would smuggle a header in fails the attempt, and nothing is sent", async (t) => {
  const receiver = await startReceiver(t);
  const sender = startSender(t);
  const target = toTarget(receiver.url());
  for (const evil of [
    { headers: { "X-Attempt": "1\r\nX-Evil: 1" } },
    { headers: { "X-Attempt: 1\r\nX-Evil": "1" } },
    { headers: { "X-Attempt": "1\n" } },
    { headers: { "X-Attempt": "é" } },
    { headers: { "": "1" } },
    { target: { ...target, requestTarget: "/ HTTP/1.1\r\nX-Evil:1" } },
    { target: { ...target, requestTarget: "/é" } },
    { target: { ...target, hostHeader: "h\r\nX-Evil:1" } },
  ]) {
    const result = await sender.send(requestTo(receiver.url(), evil));

    assert.equal(result.outcome, "failed", JSON.stringify(evil));
    assert.match(result.error ?? "", /request/);
  }
  assert.equal(receiver.requests.length, 0);
});

test("an attempt is delivered if its status is 2xx, and follows no redirect", async (t) => {
  const trap = await startTrap(t);
  const receiver = await startReceiver(t);
  const sender = startSender(t);
  const delivered = [200, 201, 202, 204, 205, 226, 299];
  const redirects = [300, 301, 302, 303, 304, 307, 308];
  const failed = [400, 404, 410, 429, 500, 503, 999];
  const headers = { Location: `http://127.0.0.1:${trap.port}/` };

  for (const status of [...delivered, ...redirects, ...failed]) {
    receiver.answerNext({ kind: "status", status, headers });
    const { outcome, httpStatus, error } = await sender.send(requestTo(receiver.url()));

    assert.equal(httpStatus, status);
    assert.equal(outcome, delivered.includes(status) ? "delivered" : "failed", String(status));
    assert.equal(error === null, delivered.includes(status));
    assert.equal(error?.includes("redirect") ?? false, redirects.includes(status), String(status));
  }
  assert.equal(trap.connections, 0);
});

for (const [header, value] of [
  ["Content-Encoding", "gzip"],
  // Each decompressor of such a chain takes memory (CVE-2026-22036).
  ["Content-Encoding", Array<string>(1000).fill("gzip").join(", ")],
  ["Transfer-Encoding", "gzip, chunked"],
] as const) {
  test(`a compressed response is not requested and not inflated: ${header}: ${value.slice(0, 20)}`, async (t) => {
    const bomb = gzipSync("a".repeat(3_000_000));
    const framed = header === "Transfer-Encoding" ? toChunks(bomb) : bomb;
    const head = `HTTP/1.1 200 OK\r\n${header}: ${value}\r\nConnection: close\r\n\r\n`;
    const bytes = Buffer.concat([Buffer.from(head), framed]);
    const receiver = await startReceiver(t, { reply: { kind: "raw", bytes, end: true } });

    const result = await startSender(t).send(requestTo(receiver.url()));

    assert.equal(result.outcome, "delivered");
    assert.equal(receiver.requests[0]?.headers["accept-encoding"], undefined);
    assert.equal(result.responseExcerpt?.slice(0, 1), "\u001f");
    assert(!result.responseExcerpt.includes("aaaa"));
  });
}

test("the record of an attempt keeps a Retry-After of up to 100 printable characters", async (t) => {
  const receiver = await startReceiver(t);
  const sender = startSender(t);
  for (const [status, lines, kept] of [
    [200, "Retry-After: 120", "120"],
    [301, "Retry-After: 120", "120"],
    [429, "retry-AFTER:   Fri, 31 Dec 1999 23:59:59 GMT  ", "Fri, 31 Dec 1999 23:59:59 GMT"],
    [503, "Retry-After: 1\r\nRetry-After: 2", "1"],
    [503, "Retry-After: soon, or <b>never</b>", "soon, or <b>never</b>"],
    [503, `Retry-After: ${"9".repeat(100)}`, "9".repeat(100)],
    [503, `Retry-After: ${"9".repeat(101)}`, null],
    [503, "Retry-After: 1\t2", null],
    [503, "Retry-After: 1\u00e9", null],
    [503, "Retry-After:", null],
    [503, "X-Retry-After: 1", null],
    [503, "X-Name: Retry-After", null],
  ] as const) {
    const head = `HTTP/1.1 ${status} Status\r\nContent-Length: 0\r\n${lines}\r\n\r\n`;
    receiver.answerNext({ kind: "raw", bytes: Buffer.from(head, "latin1") });

    const result = await sender.send(requestTo(receiver.url()));

    assert.deepEqual([result.httpStatus, result.retryAfter], [status, kept], lines);
  }
});

test("the excerpt is the first 4096 bytes, up to the last complete character", async (t) => {
  const sender = startSender(t);
  for (const [body, excerpt] of [
    ["", ""],
    ["a".repeat(4096), "a".repeat(4096)],
    ["a".repeat(4097), "a".repeat(4096)],
    [`a${"€".repeat(2000)}`, `a${"€".repeat(1365)}`],
    [`${"a".repeat(4095)}€`, "a".repeat(4095)],
    [Buffer.from([0x61, 0xff, 0xe2, 0x82]), "a\ufffd\ufffd"],
    ["\ufeffa\u0000b", "\ufeffa\u0000b"],
  ] as const) {
    const receiver = await startReceiver(t, { reply: { kind: "status", status: 200, body } });

    const result = await sender.send(requestTo(receiver.url()));

    assert.equal(result.outcome, "delivered");
    assert.equal(result.responseExcerpt, excerpt);
  }
});

test("a status within the deadline delivers an attempt whose body hangs or drips, after one second", async (t) => {
  const endless = "HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\nbegun";
  for (const reply of [
    { kind: "raw", bytes: endless },
    { kind: "drip", head: endless, bytes: "x", everyMs: 1 },
  ] as const) {
    const receiver = await startReceiver(t, { reply });
    const clock = createFakeClock({ now: 0 });

    const sent = startSender(t, { clock }).send(requestTo(receiver.url()));
    // The deadline, and the time for the body.
    await clock.whenPending(2);
    clock.advance(999);
    assert.deepEqual(clock.pending(), [1, 9001]);
    clock.advance(1);

    assert.equal((await sent).outcome, "delivered");
    await receiver.whenDisconnected();
  }
});

test("a body ends at the deadline of its attempt", async (t) => {
  const gate = createGate();
  const late = { kind: "raw", bytes: "HTTP/1.1 500 Oops\r\nContent-Length: 9\r\n\r\n" } as const;
  const reply = { kind: "held", until: gate.opened, reply: late } as const;
  const receiver = await startReceiver(t, { reply });
  const clock = createFakeClock({ now: 0 });

  const sent = startSender(t, { clock }).send(requestTo(receiver.url()));
  await receiver.next();
  clock.advance(9500);
  gate.open();
  await clock.whenPending(2);
  clock.advance(500);

  const result = await sent;
  assert.equal(result.outcome, "failed");
  assert.equal(result.httpStatus, 500);
});

test("an attempt stays delivered if its body breaks off", async (t) => {
  const bytes = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nbeg";
  const receiver = await startReceiver(t, { reply: { kind: "raw", bytes, end: true } });

  const result = await startSender(t).send(requestTo(receiver.url()));

  assert.equal(result.outcome, "delivered");
  assert.equal(result.responseExcerpt, "beg");
});

test("a response that arrived while the process was busy past the deadline counts", async (t) => {
  const gate = createGate();
  const bytes = "HTTP/1.1 204 No Content\r\n\r\n";
  const reply = { kind: "held", until: gate.opened, reply: { kind: "raw", bytes } } as const;
  const receiver = await startReceiver(t, { reply });

  const clock = createFakeClock({ now: 0 });
  const sent = startSender(t, { clock, timeoutMs: 500 }).send(requestTo(receiver.url()));
  await receiver.next();
  gate.open();
  await gate.opened;
  await Promise.resolve();
  // The response is written. The process is busy until the timer of the deadline is due, which fires before a read.
  setTimeout(() => clock.advance(500), 1);
  for (const busyUntil = performance.now() + 20; performance.now() < busyUntil;);

  assert.equal((await sent).outcome, "delivered");
});

test("phases are milliseconds with one decimal, or null for a phase that did not happen", async (t) => {
  const receiver = await startReceiver(t);
  const sender = startSender(t, { hosts: ["127.0.0.1 hooks.example.com"] });
  const named = `http://hooks.example.com:${receiver.port}/`;

  const first = await sender.send(requestTo(named));
  const second = await sender.send(requestTo(named));
  const literal = await sender.send(requestTo(receiver.url()));

  const { dnsMs, connectMs, tlsMs, firstByteMs } = first.phases;
  for (const ms of [dnsMs, connectMs, firstByteMs]) {
    assert(ms !== null && ms >= 0 && ms < 5000);
    assert.equal(ms, Math.round(ms * 10) / 10);
  }
  assert.equal(tlsMs, null);
  assert.equal(second.phases.connectMs, null);
  assert.equal(literal.phases.dnsMs, null);
});
