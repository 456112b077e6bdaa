import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

import fc from "fast-check";

import { createFakeClock } from "../helpers/fake-clock.ts";
import { toChunks } from "../helpers/raw-http.ts";
import { createGate, startReceiver } from "../helpers/receiver.ts";
import { startTrap } from "../helpers/trap.ts";
import { requestTo, startSender } from "./sender-setup.ts";

test("a POST arrives with its body byte for byte, its headers, and the sender's own three", async (t) => {
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

test("a GET carries no body and no Content-Length", async (t) => {
  const receiver = await startReceiver(t);

  await startSender(t).send(requestTo(receiver.url("/ping?a=1"), { method: "GET", body: null }));

  const request = await receiver.next();
  assert.equal(request.method, "GET");
  assert.equal(request.url, "/ping?a=1");
  assert.deepEqual(Object.keys(request.headers), ["host", "connection"]);
});

test("a body of bytes and a body of 1 MiB arrive whole", async (t) => {
  const receiver = await startReceiver(t);
  const sender = startSender(t);
  const bytes = new Uint8Array(1_048_576).map((_, index) => index % 251);

  await sender.send(requestTo(receiver.url(), { body: bytes }));
  await sender.send(requestTo(receiver.url(), { body: "é".repeat(524_288) }));

  const [first, second] = await receiver.waitFor(2);
  assert(first?.rawBody.equals(bytes));
  assert.equal(second?.rawBody.toString(), "é".repeat(524_288));
});

for (const target of [
  "",
  "/",
  "/?",
  "?",
  "/#x",
  "//",
  "//a//b/",
  "/a%2Fb/%2e%2e/c",
  "/a/../b/./c",
  "/%2e%2e/",
  "/\"'`<>{}|^",
  "/a?q=\"'`<>{}|^[]\\",
  "/?a=%zz&b=%",
  "/ü/日本?ü=€",
  "/a b?c d",
  "/a;b=c,d:e@f!$&()*+=~",
  "/?a=b?c=d",
  "/%00%0d%0aX-Evil:%201",
]) {
  test(`what stands on the request line is what is shown and signed: ${JSON.stringify(target)}`, async (t) => {
    const receiver = await startReceiver(t);
    const request = requestTo(receiver.url("") + target);

    const result = await startSender(t).send(request);

    const { url, headers } = await receiver.next();
    assert.equal(result.outcome, "delivered");
    assert.equal(url, request.target.requestTarget);
    assert.equal(`http://${headers["host"]}${url}`, request.target.url);
  });
}

test("for any path and query, what arrives equals the normal form", async (t) => {
  const receiver = await startReceiver(t);
  const sender = startSender(t);
  const odd = fc.string({
    unit: fc.constantFrom(..."ab/.%2e?&=\"'`|^~[]{}ü日 +;\\"),
    maxLength: 40,
  });

  await fc.assert(
    fc.asyncProperty(odd, async (text) => {
      const request = requestTo(`${receiver.url("/")}${text}x`);
      await sender.send(request);
      const { url, headers } = await receiver.next();
      assert.equal(`http://${headers["host"]}${url}`, request.target.url);
    }),
    { numRuns: 500 },
  );
});

for (const headers of [
  { "X-Attempt": "1\r\nX-Evil: 1" },
  { "X-Attempt: 1\r\nX-Evil": "1" },
  { "X-Attempt": "1\n" },
  { "X-Attempt": "é" },
  { "": "1" },
]) {
  test(`nothing is smuggled in by ${JSON.stringify(headers)}: nothing is sent and the attempt fails`, async (t) => {
    const receiver = await startReceiver(t);

    const result = await startSender(t).send(requestTo(receiver.url(), { headers }));

    assert.equal(result.outcome, "failed");
    assert.equal(result.error, "request cannot be written");
    assert.equal(receiver.requests.length, 0);
  });
}

for (const status of [200, 201, 202, 204, 205, 226, 299]) {
  test(`status ${status} is delivered`, async (t) => {
    const receiver = await startReceiver(t, { reply: { kind: "status", status } });

    const result = await startSender(t).send(requestTo(receiver.url()));

    assert.equal(result.outcome, "delivered");
    assert.equal(result.httpStatus, status);
    assert.equal(result.error, null);
  });
}

for (const [status, error] of [
  [300, "redirects are not followed"],
  [304, "redirects are not followed"],
  [400, "status is not 2xx"],
  [404, "status is not 2xx"],
  [410, "status is not 2xx"],
  [429, "status is not 2xx"],
  [500, "status is not 2xx"],
  [503, "status is not 2xx"],
  [999, "status is not 2xx"],
] as const) {
  test(`status ${status} fails`, async (t) => {
    const receiver = await startReceiver(t, { reply: { kind: "status", status } });

    const result = await startSender(t).send(requestTo(receiver.url()));

    assert.equal(result.outcome, "failed");
    assert.equal(result.httpStatus, status);
    assert.equal(result.error, error);
  });
}

for (const status of [301, 302, 303, 307, 308]) {
  test(`a redirect (${status}) is a failure and is not followed`, async (t) => {
    const trap = await startTrap(t);
    const headers = { Location: `http://127.0.0.1:${trap.port}/` };
    const receiver = await startReceiver(t, { reply: { kind: "status", status, headers } });

    const result = await startSender(t).send(requestTo(receiver.url()));

    assert.equal(result.outcome, "failed");
    assert.equal(result.httpStatus, status);
    assert.equal(receiver.requests.length, 1);
    assert.equal(trap.connections, 0);
  });
}

test("the body of a failure is kept for whoever looks for the reason", async (t) => {
  const reply = { kind: "status", status: 422, body: '{"error":"no such order"}' } as const;
  const receiver = await startReceiver(t, { reply });

  const result = await startSender(t).send(requestTo(receiver.url()));

  assert.equal(result.responseExcerpt, '{"error":"no such order"}');
});

for (const [header, value] of [
  ["Content-Encoding", "gzip"],
  // Each decompressor of such a chain would take its memory (CVE-2026-22036).
  ["Content-Encoding", Array<string>(1000).fill("gzip").join(", ")],
  ["Transfer-Encoding", "gzip, chunked"],
] as const) {
  test(`what comes compressed is not inflated, nor asked for: ${header}: ${value.slice(0, 20)}`, async (t) => {
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

for (const [lines, kept] of [
  ["Retry-After: 120", "120"],
  ["retry-AFTER:   Fri, 31 Dec 1999 23:59:59 GMT  ", "Fri, 31 Dec 1999 23:59:59 GMT"],
  ["Retry-After: 1\r\nRetry-After: 2", "1"],
  ["Retry-After: soon, or <b>never</b>", "soon, or <b>never</b>"],
  [`Retry-After: ${"9".repeat(100)}`, "9".repeat(100)],
  [`Retry-After: ${"9".repeat(101)}`, null],
  ["Retry-After: 1\t2", null],
  ["Retry-After: 1\u00e9", null],
  ["Retry-After:", null],
  ["X-Retry-After: 1", null],
  ["X-Name: Retry-After", null],
] as const) {
  test(`of ${JSON.stringify(lines).slice(0, 60)} the record keeps ${JSON.stringify(kept)?.slice(0, 40)}`, async (t) => {
    const receiver = await startReceiver(t);
    const sender = startSender(t);
    for (const status of [200, 301, 429, 503]) {
      const head = `HTTP/1.1 ${status} Status\r\nContent-Length: 0\r\n${lines}\r\n\r\n`;
      receiver.answerNext({ kind: "raw", bytes: Buffer.from(head, "latin1") });

      const result = await sender.send(requestTo(receiver.url()));

      assert.equal(result.httpStatus, status);
      assert.equal(result.retryAfter, kept);
    }
  });
}

test("a Retry-After that was never sent is null, whatever came of the attempt", async (t) => {
  const receiver = await startReceiver(t);
  const sender = startSender(t);

  for (const reply of [{ kind: "status", status: 503 }, { kind: "close" }] as const) {
    receiver.answer(reply);
    assert.equal((await sender.send(requestTo(receiver.url()))).retryAfter, null);
  }
});

test("the excerpt is the first 4096 bytes, without half a character at its end", async (t) => {
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

test("a status within the deadline is delivered though the body hangs: it gets a second, no more", async (t) => {
  const head = "HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\nbegun";
  const receiver = await startReceiver(t, { reply: { kind: "raw", bytes: head } });
  const clock = createFakeClock({ now: 0 });

  const sent = startSender(t, { clock }).send(requestTo(receiver.url()));
  // The deadline, and the time that the body gets once the status is there.
  await clock.whenPending(2);
  assert.deepEqual(clock.pending(), [1000, 10_000]);
  clock.advance(1000);

  const result = await sent;
  assert.equal(result.outcome, "delivered");
  assert.equal(result.httpStatus, 200);
  await receiver.whenDisconnected();
});

test("a body that drips gets the same second, and what came of it is kept", async (t) => {
  const head = "HTTP/1.1 200 OK\r\n\r\nbegun";
  const reply = { kind: "drip", head, bytes: "x", everyMs: 1 } as const;
  const receiver = await startReceiver(t, { reply });
  const clock = createFakeClock({ now: 0 });

  const sent = startSender(t, { clock }).send(requestTo(receiver.url()));
  await clock.whenPending(2);
  clock.advance(999);
  assert.deepEqual(clock.pending(), [1, 9001]);
  clock.advance(1);

  const result = await sent;
  assert.equal(result.outcome, "delivered");
  await receiver.whenDisconnected();
});

test("the body does not hold an attempt beyond its deadline", async (t) => {
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
  assert.equal(result.error, "status is not 2xx");
});

test("a delivered attempt stays delivered when the body is reset", async (t) => {
  const bytes = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nbeg";
  const receiver = await startReceiver(t, { reply: { kind: "raw", bytes, end: true } });

  const result = await startSender(t).send(requestTo(receiver.url()));

  assert.equal(result.outcome, "delivered");
  assert.equal(result.responseExcerpt, "beg");
});

test("an answer that came while the process was busy past the deadline is read, not timed out", async (t) => {
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
  // The answer is written. The process is busy until a timer is due, which comes before any reading: the deadline's.
  setTimeout(() => clock.advance(500), 1);
  for (const busyUntil = performance.now() + 20; performance.now() < busyUntil;);

  assert.equal((await sent).outcome, "delivered");
});

test("phases are in milliseconds with one decimal, and null where nothing happened", async (t) => {
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
