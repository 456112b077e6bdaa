import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

import { excerptWithout } from "../../src/run/http.ts";
import type { Reply } from "../helpers/receiver.ts";
import { completed, failureOf, runOnce, startService } from "./http-run.ts";

function reply(body: string | Uint8Array, type?: string, status = 200): Reply {
  const headers = type === undefined ? {} : { "content-type": type };
  return { kind: "status", status, headers, body };
}

test("the runner posts the JSON that a command reads, with its own headers", async (t) => {
  const { receiver, run, clock } = await startService(t, reply("[1]"));
  const inputText = '{\n"n": 1.10,\r\n "s": "a\\nb"}';

  const outcome = await run({ id: "t-9", type: "resize", tag: "é", marketplace: "us", inputText });

  assert.deepEqual(outcome, completed("[1]"));
  const { method, url, headers, rawBody } = await receiver.next();
  assert.deepEqual([method, url], ["POST", "/resize"]);
  const head = '{"id":"t-9","type":"resize","tag":"é","marketplace":"us","input":';
  assert.equal(rawBody.toString(), `${head}{ "n": 1.10,  "s": "a\\nb"}}`);
  assert.deepEqual(headers, {
    host: `127.0.0.1:${receiver.port}`,
    "user-agent": "postbackd-runner/1",
    "content-type": "application/json",
    "idempotency-key": "t-9",
    "accept-encoding": "identity",
    "content-length": String(rawBody.length),
    connection: "keep-alive",
  });
  assert.deepEqual(clock.pending(), []);
});

test("the operator's headers are sent, and replace only the User-Agent of the runner", async (t) => {
  const { receiver, run } = await startService(t, reply(""));
  const headers = {
    authorization: "Bearer abc",
    "user-agent": "us/2",
    "content-type": "text/plain",
    "idempotency-key": "1",
    "accept-encoding": "gzip",
    "content-length": "1",
    ...JSON.parse('{"__proto__":"x"}'),
  };

  await run({ headers });

  const request = await receiver.next();
  assert.equal(request.headers["authorization"], "Bearer abc");
  assert.equal(request.headers["user-agent"], "us/2");
  assert.equal(request.headers["content-type"], "application/json");
  assert.equal(request.headers["idempotency-key"], "t-1");
  assert.equal(request.headers["accept-encoding"], "identity");
  assert.equal(request.headers["content-length"], String(request.rawBody.length));
  assert.ok(request.rawHeaders.includes("__proto__"));
});

test("a 2xx is the result: JSON unchanged, other text as a string, an empty body as null", async (t) => {
  const { receiver, run } = await startService(t);
  const digits = "9".repeat(10_000);
  const cases: readonly [Reply, string][] = [
    [reply('{"a":1}', "application/json"), '{"a":1}'],
    [reply(" [1.10, -0, 1e999 ]\n", "application/json; charset=utf-8"), "[1.10,-0,1e999]"],
    [reply(digits), digits],
    [reply(`{"n":${digits}.${digits}}`, "application/json"), `{"n":${digits}.${digits}}`],
    [reply('"text"', "application/json"), '"text"'],
    [reply('"text"', "text/plain"), '"text"'],
    [reply("done\n", "text/plain"), '"done"'],
    [reply("é", "text/plain; charset=iso-8859-1"), '"é"'],
    // The wrong type: a page is a text like any other.
    [reply("<p>hi</p>", "text/html"), '"<p>hi</p>"'],
    [reply("not json"), '"not json"'],
    [reply("", "application/json"), "null"],
    [reply("", undefined, 204), "null"],
    [reply("7", undefined, 202), "7"],
    [reply("\ufeff{}", "application/json"), "{}"],
    [{ kind: "status", status: 200, headers: { "content-encoding": "Identity" }, body: "1" }, "1"],
    [{ kind: "status", status: 200, headers: { "content-encoding": "gzip" } }, "null"],
  ];

  for (const [answer, resultText] of cases) {
    receiver.answerNext(answer);
    assert.deepEqual(await run(), completed(resultText), JSON.stringify(answer).slice(0, 99));
  }
});

test("a 2xx that cannot be a result is 50010", async (t) => {
  const { receiver, run } = await startService(t);
  const gzip = { "content-encoding": "gzip" };
  const replies: readonly Reply[] = [
    reply(Buffer.from([0x7b, 0xff, 0x7d])),
    reply(Buffer.from("é", "latin1"), "text/plain; charset=iso-8859-1"),
    reply("[".repeat(65) + "]".repeat(65)),
    reply("\u0001".repeat(50_000)),
    reply("{'a': 1}", "application/json"),
    reply('{"a":', "Application/JSON ;charset=x"),
    reply("\n", "application/problem+json"),
    reply('"a', "application/json"),
    { kind: "status", status: 200, headers: gzip, body: gzipSync("[1]") },
    { kind: "status", status: 200, headers: gzip, body: "[1]" },
  ];

  for (const each of replies) {
    receiver.answerNext(each);
    const { detail } = failureOf(await run());
    assert.deepEqual([detail["http_status"], detail["attempts"]], [200, 1], JSON.stringify(each));
  }
});

test("a response over the limit is cut while it is read, and is 50010", async (t) => {
  const { receiver, run } = await startService(t);
  const endless = { kind: "flood", head: "HTTP/1.1 200 OK\r\n\r\n", bytes: "[" } as const;

  for (const each of [endless, reply(`"${"x".repeat(99_999)}"`)]) {
    receiver.answerNext(each);
    const detail = { attempts: 1, http_status: 200, error: null, response_excerpt: null };
    assert.deepEqual(failureOf(await run()).detail, detail);
    await receiver.whenDisconnected();
  }
  const text = `"${"x".repeat(99_998)}"`;
  receiver.answerNext(reply(text));
  assert.deepEqual(await run(), completed(text));
});

test("any other status is 50010 immediately, with the beginning of its body; no redirect is followed", async (t) => {
  const { receiver, run, clock } = await startService(t);
  const headers = { location: receiver.url("/elsewhere") };
  for (const status of [400, 401, 404, 408, 409, 413, 418, 422, 425, 500, 501, 505, 599, 600]) {
    receiver.answerNext(reply(`no ${status}`, "text/plain", status));
    const response_excerpt = `no ${status}`;
    const detail = { attempts: 1, http_status: status, error: null, response_excerpt };
    assert.deepEqual(failureOf(await run()).detail, detail);
  }
  for (const status of [301, 302, 303, 307, 308]) {
    receiver.answerNext({ kind: "status", status, headers });
    assert.equal(failureOf(await run()).detail["http_status"], status);
  }
  assert.deepEqual(clock.pending(), []);
  assert.ok(receiver.requests.every(({ url }) => url === "/resize"));

  receiver.answerNext({ kind: "raw", bytes: "SSH-2.0-OpenSSH_9.6\r\n" });
  assert.match(String(failureOf(await run()).detail["error"]), /not valid HTTP/);
});

test("an excerpt is text of at most 4 KiB, cut between characters", async (t) => {
  const { receiver, run } = await startService(t);
  const cases: readonly [string | Uint8Array, string][] = [
    [`${"x".repeat(4095)}é`, "x".repeat(4095)],
    ["é".repeat(5000), "é".repeat(2048)],
    [Buffer.from([0x61, 0xff, 0x62]), "a\ufffdb"],
    ["a\u0000b", "a\u0000b"],
    ["", ""],
  ];
  for (const [body, excerpt] of cases) {
    receiver.answerNext(reply(body, undefined, 500));
    assert.equal(failureOf(await run()).detail["response_excerpt"], excerpt);
  }
});

test("header values and the query appear in no error, even if the service returns its request", async (t) => {
  const { receiver, run } = await startService(t);
  const url = receiver.url("/resize?token=hunter2%20x&mode=1");
  const headers = { authorization: "Bearer s3cret-s3cret", "x-key": "k3y-k3y" };
  const page = [
    "POST /resize?token=hunter2%20x&mode=1",
    "token: hunter2 x",
    "authorization: Bearer s3cret-s3cret, s3cret-s3cret",
    `${"x".repeat(3950)} k3y-k3y`,
  ].join("\n");

  receiver.answer(reply(page, "text/plain", 500));
  const failure = failureOf(await run({ url, headers }));
  const excerpt = String(failure.detail["response_excerpt"]);
  assert.match(
    excerpt,
    /^POST \/resize\?\[hidden\]\ntoken: \[hidden\]\nauthorization: \[hidden\], /,
  );
  assert.doesNotMatch(JSON.stringify(failure), /hunter2|s3cret|k3y/);
  assert.equal((await receiver.next()).url, "/resize?token=hunter2%20x&mode=1");
});

test("successive tasks share one connection", async (t) => {
  const { receiver, runner } = await startService(t, reply("1"));
  const one = runner();

  for (let count = 0; count < 10; count++) {
    assert.deepEqual(await runOnce(one, { id: `t-${count}` }), completed("1"));
  }

  assert.equal(receiver.connectionsSeen, 1);
  assert.equal(new Set(receiver.requests.map((each) => each.headers["idempotency-key"])).size, 10);
});

test("tasks run at the same time over connections of their own, up to the concurrency", async (t) => {
  const { receiver, runner } = await startService(t, { kind: "hang" });
  const abort = new AbortController();
  const one = runner({ concurrency: 3 });
  assert.equal(one.concurrency, 3);

  const runs = [1, 2, 3].map((id) => runOnce(one, { id: `t-${id}`, signal: abort.signal }));
  await receiver.waitFor(3);
  assert.equal(receiver.connectionsSeen, 3);
  abort.abort();
  assert.deepEqual(await Promise.all(runs), Array(3).fill({ kind: "aborted" }));
});

const SECRET = "s3cret-".repeat(40);

test("an excerpt hides every part of a secret, wherever it is cut", () => {
  for (let shift = 0; shift < SECRET.length; shift++) {
    const text = "x".repeat(shift) + SECRET.repeat(100);
    const shown = excerptWithout([SECRET], Buffer.from(text));
    assert.match(shown, /^x*(?:\[hidden\])*(?:\[[hiden]*)?$/, `${shift}`);
  }
  assert.equal(excerptWithout([SECRET], Buffer.from(`a ${SECRET} b`)), "a [hidden] b");
});

test("an excerpt of a long body decodes only the part that it needs", (t) => {
  const encode = t.mock.method(Buffer, "from");
  const body = Buffer.alloc(4_000_000, "x");
  encode.mock.resetCalls();

  assert.equal(excerptWithout([SECRET], body), "x".repeat(4096));
  const [text]: readonly unknown[] = encode.mock.calls[0]?.arguments ?? [];
  assert(typeof text === "string" && text.length <= 8192);
});
