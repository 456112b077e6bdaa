import assert from "node:assert/strict";
import { test } from "node:test";

import { InboxBoxes, type InboxMessage } from "../../src/dev/inbox-boxes.ts";
import { signWebhook } from "../../src/domain/webhook/signature.ts";
import { exchange } from "../helpers/raw-http.ts";
import { startDev } from "./dev-client.ts";

const MIB = 1024 ** 2;

test("a body of 4 MiB is recorded, and one byte more is refused before it is read", async (t) => {
  const { look, ready } = await startDev(t);
  const url = `${ready.url}/inbox/big`;
  const largest = await fetch(url, { method: "POST", body: "x".repeat(4 * MIB) });
  const body = new Blob(["x".repeat(4 * MIB + 1)]).stream();
  const chunked = await fetch(url, { method: "POST", body, duplex: "half" } as RequestInit).catch(
    () => null,
  );
  const headers = [`Content-Length: ${4 * MIB + 1}`];
  const declared = await exchange(ready.url, { method: "POST", target: "/inbox/big", headers });

  assert.equal(largest.status, 200);
  assert.ok(chunked === null || chunked.status === 413);
  assert.equal(declared.status, 413);
  assert.match(declared.body.toString(), /4194304/);
  assert.deepEqual(
    (await look("big")).map((message) => message.body.length),
    [4 * MIB],
  );
});

test("a box has a name of 1 to 64 plain characters", async (t) => {
  const { ask, ready } = await startDev(t);
  const { url } = ready;
  for (const name of ["a b", "%2e%2e%2f", "x".repeat(65), "ä", "a%00"]) {
    const target = `/inbox/${encodeURI(name)}`;
    assert.equal((await exchange(url, { method: "POST", target })).status, 400, name);
    assert.equal((await exchange(url, { target: `/dev${target}` })).status, 400, name);
  }
  const elsewhere = await exchange(url, { target: "/inbox/../livez" });
  const normal = await exchange(url, { target: "/x/../inbox/normal" });
  assert.match(elsewhere.body.toString(), /"status":"ok"/);
  assert.equal(normal.status, 200);
  const { boxes = [] } = await ask("GET /dev/inbox");
  assert.deepEqual(
    boxes.map(({ box }) => box),
    ["normal"],
  );
  for (const name of ["x".repeat(64), "A-z_0.9", "a+b@c", "error", "__proto__", "constructor"]) {
    const request = { method: "POST", target: `/inbox/${name}` };
    assert.equal((await exchange(url, request)).status, 200, name);
  }
});

/** A message with the fields that its box reads. */
function newMessage(box: string, seq: number, body = Buffer.alloc(0)): InboxMessage {
  return { box, seq, body, url: "", target: "", headers: [] } as unknown as InboxMessage;
}

test("of each box the last 1,000 messages are kept, and there are 1,000 boxes at most", () => {
  const boxes = new InboxBoxes();
  for (let seq = 1; seq <= 1505; seq++) boxes.add(newMessage("full", seq));
  for (let box = 1; box < 1000; box++) boxes.add(newMessage(`b${box}`, 1));

  const messages = boxes.messages("full");
  assert.deepEqual([messages.length, messages[0]?.seq], [1000, 506]);
  assert.throws(() => boxes.add(newMessage("one-more", 1)), { code: 42900 });
  boxes.remove("b7");
  boxes.add(newMessage("one-more", 1));
  assert.equal(boxes.list().length, 1000);
});

test("all messages together take no more than 256 MiB: the oldest go", () => {
  const boxes = new InboxBoxes();
  const body = Buffer.alloc(4 * MIB);
  for (let seq = 1; seq <= 70; seq++) boxes.add(newMessage(`b${seq % 2}`, seq, body));

  // A message takes some bytes more than its body.
  assert.deepEqual([boxes.messages("b0").length, boxes.messages("b1").length], [32, 31]);
  assert.equal(boxes.messages("b0")[0]?.seq, 8);
});

test("a response has messages of 16 MiB at most", async (t) => {
  const { ask, ready } = await startDev(t);
  const body = "y".repeat(4 * MIB);
  for (let sent = 0; sent < 5; sent++)
    await fetch(`${ready.url}/inbox/b0`, { method: "POST", body });

  const { messages = [], next_after: after } = await ask("GET /dev/inbox/b0");
  assert.equal(messages.length, 4);
  assert.equal((await ask(`GET /dev/inbox/b0?after=${after}`)).messages?.length, 1);
});

test("a message is recorded byte for byte", async (t) => {
  const { look, ready } = await startDev(t, { seed: 5 });
  const { port } = new URL(ready.url);
  const target = "/inbox/raw/a%20b/../c?x=%E4&x=2";
  await exchange(ready.url, {
    ...{ method: "PURGE", target, host: false },
    headers: [`Host: localhost:${port}`, "X-One: 1", "x-one: 2", "Authorization: Basic eDp5"],
    body: Buffer.from([0xff, 0x00, 0x41]),
  });
  await exchange(ready.url, { method: "POST", target: "/inbox/raw", body: "\u{1f4ee} text" });

  const [bytes, text] = await look("raw");
  assert.partialDeepStrictEqual(bytes, {
    ...{ received_at: "2026-01-01T00:00:00.000Z", method: "PURGE", url: target },
    full_url: `http://localhost:${port}${target}`,
    ...{ body: "/wBB", body_encoding: "base64", kind: null, task_id: null, attempt: null },
    signature: { verdict: "missing" },
    answered: { how: "sent", status: 200, after_ms: 0 },
  });
  assert.deepEqual(bytes?.headers.slice(1, 4), [
    ["X-One", "1"],
    ["x-one", "2"],
    ["Authorization", "Basic eDp5"],
  ]);
  assert.partialDeepStrictEqual(text, { body: "\u{1f4ee} text", body_encoding: "utf-8" });
});

test("a postback and a pingback of a task are valid, and found by task and kind", async (t) => {
  const { look, post, ready } = await startDev(t);
  const { account, inbox_url: url } = ready;
  const [id = ""] = await post(
    { postback_url: `${url}/post`, pingback_url: `${url}/ping?id=$id&x=a%20b` },
    { postback_url: url },
  );
  const messages = await look(`${account}?count=3&wait=30`);

  assert.equal(messages.length, 3);
  assert.ok(messages.every(({ signature }) => signature.verdict === "valid"));
  const own = await look(`${account}?task=${id}`);
  assert.deepEqual(new Set(own.map(({ kind }) => kind)), new Set(["pingback", "postback"]));
  assert.ok(own.every(({ task_id, attempt }) => task_id === id && attempt === 1));
  const [ping, ...others] = await look(`${account}?kind=pingback`);
  assert.deepEqual([ping?.method, others], ["GET", []]);
  assert.equal(ping?.full_url, `${url}/ping?id=${id}&x=a%20b`);
});

test("a signature over other bytes is invalid, and the detail names the difference", async (t) => {
  const { look, post, ready } = await startDev(t);
  const { webhook_secret: secret } = ready;
  await post({ postback_url: ready.inbox_url });
  const [sent] = await look(`${ready.account}?wait=30`);
  assert.ok(sent !== undefined);
  const id = sent.headers.find(([name]) => name.toLowerCase() === "webhook-id")?.[1] ?? "";
  const send = async (body: string, signature: string) => {
    const headers = { "webhook-id": id, "x-signature": signature };
    await fetch(`${ready.url}/inbox/again`, { method: "POST", body, headers });
    return (await look("again")).at(-1)?.signature;
  };

  assert.deepEqual(await send(sent.body, signWebhook(sent.body, secret)), sent.signature);
  for (const [body, signature, word] of [
    [`${sent.body}\n`, signWebhook(sent.body, secret), /line break/],
    [sent.body, signWebhook(sent.body, secret.replace("whsec_", "")), /whsec_/],
    [sent.body, "sha256=00", /./],
    ["{}", signWebhook(sent.body, secret), /./],
  ] as const) {
    const judged = await send(body, signature);
    assert.equal(judged?.verdict, "invalid");
    assert.match(judged?.detail ?? "", word);
  }
});

test("a body without headers is judged by the task that it names", async (t) => {
  const { look, post, ready } = await startDev(t);
  const [id = ""] = await post({ postback_url: ready.inbox_url });
  const [sent] = await look(`${ready.account}?wait=30`);
  const headers = { "x-signature": signWebhook(sent?.body ?? "", ready.webhook_secret) };
  for (const body of [sent?.body ?? "", "?"])
    await fetch(`${ready.url}/inbox/kept`, { method: "POST", body, headers });

  assert.partialDeepStrictEqual(await look("kept"), [
    { task_id: id, kind: "postback", signature: { verdict: "valid" } },
    { task_id: null, signature: { verdict: "invalid" } },
  ]);
});

test("in a rotation the next secret has its own verdict, and after it the old secret is invalid", async (t) => {
  const { look, own, post, ready } = await startDev(t);
  await post({ postback_url: ready.inbox_url });
  const [sent] = await look(`${ready.account}?wait=30`);
  const next = await own.rotateSecret();
  const webhookId = sent?.headers.find(([name]) => name === "webhook-id")?.[1] ?? "";
  const verdictOf = async (signatures: Readonly<Record<string, string>>) => {
    const headers = { "webhook-id": webhookId, ...signatures };
    await fetch(`${ready.url}/inbox/again`, { method: "POST", body: "x", headers });
    return (await look("again")).at(-1)?.signature.verdict;
  };
  const byOld = { "x-signature": signWebhook("x", ready.webhook_secret) };
  const byNext = { "x-signature": signWebhook("x", next) };
  const nextHeader = { "x-signature-next": signWebhook("x", next) };

  assert.equal(await verdictOf({ ...byOld, ...nextHeader }), "valid");
  assert.equal(await verdictOf(byNext), "next");
  assert.equal(await verdictOf(nextHeader), "next");
  assert.equal(await verdictOf({}), "missing");
  await own.finishRotation();
  assert.equal(await verdictOf(byOld), "invalid");
  assert.equal(await verdictOf(byNext), "valid");
});

test("an inbox gives its responses in order, then the last one, and 200 after it is emptied", async (t) => {
  const { ask, look, ready } = await startDev(t);
  const url = `${ready.url}/inbox/shop`;
  const later = { status: 503, headers: { "Retry-After": "7" }, body: "later" };
  await ask("PUT /dev/inbox/shop/answers", { answers: [500, later, 204], then: 418 });
  const responses = [];
  for (let sent = 0; sent < 5; sent++) responses.push(await fetch(url));

  const statuses = [500, 503, 204, 418, 418];
  assert.deepEqual(
    responses.map(({ status }) => status),
    statuses,
  );
  assert.equal(responses[1]?.headers.get("retry-after"), "7");
  assert.equal(await responses[1]?.text(), "later");
  const recorded = (await look("shop")).map(({ answered }) => answered.status);
  assert.deepEqual(recorded, statuses);
  await ask("DELETE /dev/inbox/shop");
  assert.deepEqual(await look("shop"), []);
  assert.equal((await fetch(url)).status, 200);
});

test("an impossible response of an inbox is refused, and named by its place in a list", async (t) => {
  const { call } = await startDev(t);
  for (const body of [
    { answers: [99] },
    { answers: [101] },
    { answers: ["never"] },
    { answers: [{ status: 200, headers: { "Content-Length": "7" } }] },
    { answers: [{ status: 200, headers: { "X-A": "a\r\nb" } }] },
    { answers: [{ status: 200, after_ms: -1 }] },
    { answers: [{ status: 200, afterMs: 5 }] },
    { then: [] },
    { answer: [200] },
  ]) {
    const { status } = await call("PUT /dev/inbox/shop/answers", body);
    assert.equal(status, 400, JSON.stringify(body));
  }
  const { body, detail } = await call("PUT /dev/inbox/shop/answers", { answers: [200, 99] });
  assert.equal(body.errors?.[0]?.pointer, "/answers");
  assert.match(detail, /item 2 .*200 to 599/);
});

const NEXT = { attempt: 2, http_status: 200, delivery: "delivered" } as const;
const SENT = { how: "sent", status: 200, after_ms: 0 } as const;
for (const [what, answer, ends, answered] of [
  [
    "that hangs times out, and the next attempt gets 200",
    "hang",
    { "10s": [{ attempt: 1, outcome: "timed_out", delivery: "scheduled" }], "5m": [NEXT] },
    [{ how: "gone", status: null, after_ms: 10_000 }, SENT],
  ],
  [
    "is sent late, and an advance waits for it",
    { status: 202, body: "", after_ms: 3000 },
    { "2999ms": [], "1ms": [{ attempt: 1, http_status: 202, delivery: "delivered" }] },
    [{ how: "sent", status: 202, after_ms: 3000 }],
  ],
  [
    "is a reset",
    "reset",
    { "1ms": [{ attempt: 1, http_status: null, delivery: "scheduled" }], "5m": [NEXT] },
    [{ how: "reset", status: null, after_ms: 0 }, SENT],
  ],
] as const) {
  test(`a response of an inbox by the clock ${what}`, async (t) => {
    const { advance, ask, look, post, ready } = await startDev(t);
    await ask(`PUT /dev/inbox/${ready.account}/answers`, { answers: [answer] });
    await post({ postback_url: ready.inbox_url });

    for (const [by, expected] of Object.entries(ends)) {
      const ended = (await advance(by)).filter(({ event }) => event === "attempt_ended");
      assert.equal(ended.length, expected.length, by);
      assert.partialDeepStrictEqual(ended, expected);
    }
    const all = (await look(ready.account)).map((message) => message.answered);
    assert.deepEqual(all, answered);
  });
}

test("a request for messages waits until enough have arrived, or until its time is over", async (t) => {
  const { look, ready } = await startDev(t);
  const url = `${ready.url}/inbox/shop`;
  const two = look("shop?count=2&wait=60");
  await fetch(url);
  await fetch(url);
  const few = await look("shop?count=5&wait=1");
  const newest = await look("shop?last=1");
  const later = look(`shop?after=${few.at(-1)?.seq}&wait=60`);
  await fetch(url);

  assert.equal((await two).length, 2);
  assert.equal(few.length, 2);
  assert.deepEqual(newest, few.slice(1));
  assert.equal((await later).length, 1);
});
