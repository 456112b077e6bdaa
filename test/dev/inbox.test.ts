import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { signWebhook } from "../../src/domain/webhook/signature.ts";
import { runProgram } from "../helpers/program.ts";
import { exchange, openRaw, toBytes } from "../helpers/raw-http.ts";
import type { ShownBody } from "./dev-client.ts";
import { startDev, type DevProgram } from "./dev-program.ts";

const MIB = 1024 ** 2;

test("a body of 4 MiB is recorded, and one byte more is refused before it is read", async (t) => {
  const dev = await startDev(t);
  const largest = await fetch(`${dev.url}/inbox/big`, {
    method: "POST",
    body: "x".repeat(4 * MIB),
  });
  const chunked = await fetch(`${dev.url}/inbox/big`, {
    method: "POST",
    body: new Blob(["x".repeat(4 * MIB + 1)]).stream(),
    duplex: "half",
  } as RequestInit).catch(() => null);
  const declared = await exchange(dev.url, {
    method: "POST",
    target: "/inbox/big",
    headers: [`Content-Length: ${4 * MIB + 1}`],
  });

  assert.equal(largest.status, 200);
  assert.ok(chunked === null || chunked.status === 413);
  assert.equal(declared.status, 413);
  assert.match(declared.body.toString(), /at most 4194304 bytes/);
  const { messages } = await look(dev, "big");
  assert.deepEqual(
    messages.map(({ body }) => body.length),
    [4 * MIB],
  );
});

test("a box has a name of 1 to 64 plain characters", async (t) => {
  const dev = await startDev(t);
  const { url } = dev;
  for (const name of ["a b", "%2e%2e%2f", "x".repeat(65), "ä", "a%00"]) {
    const target = `/inbox/${encodeURI(name)}`;

    assert.equal((await exchange(url, { method: "POST", target })).status, 400, name);
    assert.equal((await exchange(url, { target: `/dev${target}` })).status, 400, name);
  }
  const elsewhere = await exchange(url, { target: "/inbox/../livez" });
  const normal = await exchange(url, { target: "/x/../inbox/normal" });
  assert.match(elsewhere.body.toString(), /"status":"ok"/);
  assert.equal(normal.status, 200);
  const { boxes } = await dev.call("GET /dev/inbox");
  assert.deepEqual(
    boxes.map(({ box }) => box),
    ["normal"],
  );
  for (const name of ["x".repeat(64), "A-z_0.9", "a+b@c", "error", "__proto__", "constructor"]) {
    assert.equal(
      (await exchange(url, { method: "POST", target: `/inbox/${name}` })).status,
      200,
      name,
    );
  }
});

test("of each box the last 1,000 messages are kept, and there are 1,000 boxes at most", async (t) => {
  const dev = await startDev(t);
  const connection = await openRaw(t, dev.url);
  for (let batch = 0; batch < 301; batch++) {
    const requests = Array.from({ length: 5 }, () =>
      toBytes({ method: "POST", target: "/inbox/full" }),
    );
    connection.send(Buffer.concat(requests));
    for (const _ of requests) assert.equal((await connection.next()).status, 200);
  }
  for (let box = 1; box < 1000; box++) {
    connection.send(toBytes({ target: `/inbox/b${box}` }));
    assert.equal((await connection.next()).status, 200);
  }
  connection.send(toBytes({ target: "/inbox/one-more" }));
  const refused = await connection.next();
  await dev.call("DELETE /dev/inbox/:box", { path: "/dev/inbox/b7" });
  connection.send(toBytes({ target: "/inbox/one-more" }));

  const { messages } = await look(dev, "full");
  assert.equal(messages.length, 1000);
  assert.equal(messages[0]?.seq, 506);
  assert.equal(refused.status, 429);
  assert.match(refused.body.toString(), /There are 1000 inboxes.*DELETE/);
  assert.equal((await connection.next()).status, 200);
});

test("all messages together take no more than 256 MiB: the oldest go", async (t) => {
  const dev = await startDev(t);
  const body = "y".repeat(4 * MIB);
  for (let sent = 0; sent < 70; sent++) {
    const response = await fetch(`${dev.url}/inbox/b${sent % 2}`, { method: "POST", body });
    assert.equal(response.status, 200);
  }

  const { boxes } = await dev.call("GET /dev/inbox");
  const kept = boxes.reduce((sum, { messages }) => sum + messages, 0);
  assert.equal(kept, 63);
  const first = await look(dev, "b0");
  assert.equal(first.messages[0]?.seq, 9);
  assert.equal(first.messages.length, 4, "one answer holds 16 MiB");
  const rest = await look(dev, `b0?after=${first.next_after}`);
  assert.equal(rest.messages[0]?.seq, 17);
});

test("a message is recorded as it came", async (t) => {
  const dev = await startDev(t, ["--clock", "manual", "--seed", "5"]);
  const { port } = new URL(dev.url);
  await exchange(dev.url, {
    method: "PURGE",
    target: "/inbox/raw/a%20b/../c?x=%E4&x=2",
    host: false,
    headers: [`Host: localhost:${port}`, "X-One: 1", "x-one: 2", "Authorization: Basic eDp5"],
    body: Buffer.from([0xff, 0x00, 0x41]),
  });
  await exchange(dev.url, { method: "POST", target: "/inbox/raw", body: "\u{1f4ee} text" });

  const { messages } = await look(dev, "raw");
  const [bytes, text] = messages;
  assert.partialDeepStrictEqual(bytes, {
    received_at: "2026-01-01T00:00:00.000Z",
    method: "PURGE",
    url: "/inbox/raw/a%20b/../c?x=%E4&x=2",
    full_url: `http://localhost:${port}/inbox/raw/a%20b/../c?x=%E4&x=2`,
    body: "/wBB",
    body_encoding: "base64",
    kind: null,
    task_id: null,
    attempt: null,
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
  const dev = await startDev(t);
  const id = await dev.tasks.post({
    postback_url: `${dev.inbox_url}/post`,
    pingback_url: `${dev.inbox_url}/ping?id=$id&x=a%20b`,
  });
  await dev.tasks.post({ postback_url: dev.inbox_url });
  const { messages } = await look(dev, `${dev.account}?count=3&wait=30`);

  assert.equal(messages.length, 3);
  assert.ok(messages.every(({ signature }) => signature.verdict === "valid"));
  assert.ok(messages.every(({ signature }) => signature.detail === "The signature is valid."));
  const of = await look(dev, `${dev.account}?task=${id}`);
  assert.deepEqual(new Set(of.messages.map(({ kind }) => kind)), new Set(["pingback", "postback"]));
  assert.ok(of.messages.every(({ task_id, attempt }) => task_id === id && attempt === 1));
  const pings = await look(dev, `${dev.account}?kind=pingback`);
  assert.deepEqual(
    pings.messages.map(({ method }) => method),
    ["GET"],
  );
  assert.equal(pings.messages[0]?.full_url, `${dev.inbox_url}/ping?id=${id}&x=a%20b`);
});

test("a signature over something else is invalid, and the sentence says over what", async (t) => {
  const dev = await startDev(t);
  await dev.tasks.post({ postback_url: dev.inbox_url });
  const [sent] = (await look(dev, `${dev.account}?wait=30`)).messages;
  assert.ok(sent !== undefined);
  const { webhook_secret: secret } = dev;
  const other = new Map(sent.headers.map(([name, value]) => [name.toLowerCase(), value]));
  const id = other.get("webhook-id") ?? "";
  const again = async (body: string, signature: string) => {
    const headers = { "webhook-id": id, "x-signature": signature };
    await fetch(`${dev.url}/inbox/again`, { method: "POST", body, headers });
    return (await look(dev, "again")).messages.at(-1)?.signature;
  };

  assert.deepEqual(await again(sent.body, signWebhook(sent.body, secret)), sent.signature);
  assert.match(
    (await again(`${sent.body}\n`, signWebhook(sent.body, secret)))?.detail ?? "",
    /^The signature is not valid\. The body has a line break at its end that was not signed/,
  );
  assert.match(
    (await again(sent.body, signWebhook(sent.body, secret.replace("whsec_", ""))))?.detail ?? "",
    /without the whsec_ of the secret/,
  );
  assert.equal((await again(sent.body, "sha256=00"))?.verdict, "invalid");
  assert.equal((await again("{}", signWebhook(sent.body, secret)))?.verdict, "invalid");
});

test("a body without headers is judged by the task that it is about", async (t) => {
  const dev = await startDev(t);
  const id = await dev.tasks.post({ postback_url: dev.inbox_url });
  const [sent] = (await look(dev, `${dev.account}?wait=30`)).messages;
  const headers = { "x-signature": signWebhook(sent?.body ?? "", dev.webhook_secret) };
  await fetch(`${dev.url}/inbox/kept`, { method: "POST", body: sent?.body ?? "", headers });
  await fetch(`${dev.url}/inbox/kept`, { method: "POST", body: "?", headers });

  const { messages } = await look(dev, "kept");
  assert.partialDeepStrictEqual(messages[0], {
    task_id: id,
    kind: "postback",
    signature: { verdict: "valid" },
  });
  assert.partialDeepStrictEqual(messages[1], { task_id: null, signature: { verdict: "invalid" } });
  assert.match(messages[1]?.signature.detail ?? "", /names no task/);
});

test("the secret that is being rotated in is told from the present one, and the one rotated out is invalid", async (t) => {
  const dev = await startDev(t);
  await dev.tasks.post({ postback_url: dev.inbox_url });
  const [sent] = (await look(dev, `${dev.account}?wait=30`)).messages;
  const next = await secretCommand(t, dev, "rotate");
  const webhookId = sent?.headers.find(([name]) => name === "webhook-id")?.[1] ?? "";
  const send = async (signatures: Readonly<Record<string, string>>) => {
    const headers = { "webhook-id": webhookId, ...signatures };
    await fetch(`${dev.url}/inbox/again`, { method: "POST", body: "x", headers });
    return (await look(dev, "again")).messages.at(-1)?.signature.verdict;
  };
  const old = { "x-signature": signWebhook("x", dev.webhook_secret) };

  assert.equal(await send({ ...old, "x-signature-next": signWebhook("x", next) }), "valid");
  assert.equal(await send({ "x-signature": signWebhook("x", next) }), "next");
  assert.equal(await send({ "x-signature-next": signWebhook("x", next) }), "next");
  assert.equal(await send({}), "missing");
  await secretCommand(t, dev, "finish");
  assert.equal(await send(old), "invalid");
  assert.equal(await send({ "x-signature": signWebhook("x", next) }), "valid");
});

test("answers come one by one, then the last word", async (t) => {
  const dev = await startDev(t);
  await setAnswers(dev, "shop", {
    answers: [500, { status: 503, headers: { "Retry-After": "7" }, body: "later" }, 204],
    then: 418,
  });
  const answers = [];
  for (let sent = 0; sent < 5; sent++) answers.push(await fetch(`${dev.url}/inbox/shop`));

  assert.deepEqual(
    answers.map(({ status }) => status),
    [500, 503, 204, 418, 418],
  );
  assert.equal(answers[1]?.headers.get("retry-after"), "7");
  assert.equal(await answers[1]?.text(), "later");
  assert.equal(answers[0]?.headers.get("x-postbackd-mode"), "dev");
  const { messages } = await look(dev, "shop");
  assert.deepEqual(
    messages.map(({ answered }) => answered.status),
    [500, 503, 204, 418, 418],
  );
});

test("answers that no server could give are refused with the reason", async (t) => {
  const { url } = await startDev(t);
  const wrong = [
    { answers: [99] },
    { answers: [101] },
    { answers: ["never"] },
    { answers: [{ status: 200, headers: { "Content-Length": "7" } }] },
    { answers: [{ status: 200, headers: { "X-A": "a\r\nb" } }] },
    { answers: [{ status: 200, after_ms: -1 }] },
    { answers: [{ status: 200, afterMs: 5 }] },
    { then: [] },
    { answer: [200] },
  ];
  for (const body of wrong) {
    const response = await fetch(`${url}/dev/inbox/shop/answers`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });

    assert.equal(response.status, 400, JSON.stringify(body));
  }
});

test("a wrong answer in a list is named by its place", async (t) => {
  const { url } = await startDev(t);

  const response = await fetch(`${url}/dev/inbox/shop/answers`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ answers: [200, 99] }),
  });

  const { errors } = (await response.json()) as ShownBody;
  assert.equal(errors?.[0]?.pointer, "/answers");
  const detail = errors?.[0]?.detail ?? "";
  assert.ok(detail.includes("item 2") && detail.includes("200 to 599"), detail);
});

test("an attempt that hangs times out as soon as the clock is advanced, and the next one is answered", async (t) => {
  const dev = await startDev(t);
  await setAnswers(dev, dev.account, { answers: ["hang"] });
  await dev.tasks.post({ postback_url: dev.inbox_url });
  const before = Date.now();
  const { events } = await advance(dev, { by: "10s" });

  assert.ok(Date.now() - before < 9000, "the clock did not wait for the machine's");
  const [ended] = events.filter(({ event }) => event === "attempt_ended");
  assert.partialDeepStrictEqual(ended, { attempt: 1, outcome: "timed_out", delivery: "scheduled" });
  const later = await advance(dev, { by: "5m" });
  assert.partialDeepStrictEqual(
    later.events.filter(({ event }) => event === "attempt_ended"),
    [{ attempt: 2, http_status: 200, delivery: "delivered" }],
  );
  const { messages } = await look(dev, dev.account);
  assert.deepEqual(
    messages.map(({ answered }) => answered),
    [
      { how: "gone", status: null, after_ms: 10_000 },
      { how: "sent", status: 200, after_ms: 0 },
    ],
  );
});

test("an answer that is to come later comes when the clock is there, and an advance waits for it", async (t) => {
  const dev = await startDev(t);
  await setAnswers(dev, dev.account, { then: { status: 202, body: "", after_ms: 3000 } });
  await dev.tasks.post({ postback_url: dev.inbox_url });
  const early = await advance(dev, { by: "2999ms" });
  const due = await advance(dev, { by: "1ms" });

  assert.deepEqual(
    early.events.filter(({ event }) => event === "attempt_ended"),
    [],
  );
  assert.partialDeepStrictEqual(
    due.events.filter(({ event }) => event === "attempt_ended"),
    [{ attempt: 1, http_status: 202, delivery: "delivered" }],
  );
  const { messages } = await look(dev, dev.account);
  assert.deepEqual(messages[0]?.answered, { how: "sent", status: 202, after_ms: 3000 });
});

test("an attempt that is reset is recorded as such", async (t) => {
  const dev = await startDev(t);
  await setAnswers(dev, dev.account, { answers: ["reset"] });
  await dev.tasks.post({ postback_url: dev.inbox_url });
  const { events } = await advance(dev, { by: "1ms" });

  const [ended] = events.filter(({ event }) => event === "attempt_ended");
  assert.partialDeepStrictEqual(ended, { attempt: 1, http_status: null, delivery: "scheduled" });
  const { messages } = await look(dev, dev.account);
  assert.equal(messages[0]?.answered.how, "reset");
});

test("a receiver that fails for 21 minutes has seen four attempts by the time the advance answers", async (t) => {
  const dev = await startDev(t);
  await setAnswers(dev, dev.account, { then: 500 });
  await dev.tasks.post({ postback_url: dev.inbox_url });
  await advance(dev, { by: "21m" });

  const { messages } = await look(dev, dev.account);
  assert.deepEqual(
    messages.map(({ attempt }) => attempt),
    [1, 2, 3, 4],
  );
});

test("a look that waits is answered as soon as enough has come, else with what there is", async (t) => {
  const dev = await startDev(t);
  const two = look(dev, "shop?count=2&wait=60");
  await fetch(`${dev.url}/inbox/shop`);
  await fetch(`${dev.url}/inbox/shop`);
  const few = await look(dev, "shop?count=5&wait=1");
  const newest = await look(dev, "shop?last=1");
  const later = look(dev, `shop?after=${few.messages.at(-1)?.seq}&wait=60`);
  await fetch(`${dev.url}/inbox/shop`);

  assert.equal((await two).messages.length, 2);
  assert.equal(few.messages.length, 2);
  assert.deepEqual(newest.messages, few.messages.slice(1));
  assert.equal((await later).messages.length, 1);
});

test("a box that is emptied has no messages and answers 200 again", async (t) => {
  const dev = await startDev(t);
  await setAnswers(dev, "shop", { then: 500 });
  await fetch(`${dev.url}/inbox/shop`);
  await dev.call("DELETE /dev/inbox/:box", { path: "/dev/inbox/shop" });

  assert.deepEqual((await look(dev, "shop")).messages, []);
  assert.equal((await fetch(`${dev.url}/inbox/shop`)).status, 200);
});

test("a clock that stands still holds up neither who waits for a task nor the stream of changes", async (t) => {
  const dev = await startDev(t);
  const headers = { authorization: `Bearer ${dev.key}` };
  const stream = await fetch(`${dev.url}/v1/events`, { headers });
  const events = readText(stream);
  const id = await dev.tasks.post({ start_at: "2999-01-01T00:00:00Z".replace("2999", nextYear()) });
  const waited = await dev.tasks.call(`/v1/tasks/task_get/${id}`, {
    headers: { prefer: "wait=1" },
  });
  await events.until(/"delayed":1/);
  await dev.tasks.cancel(id);
  await events.until(/"delayed":0/);

  assert.equal(waited.status, 200);
});

function nextYear(): string {
  return String(new Date().getUTCFullYear() + 1);
}

/** Reads a stream as far as it is needed. */
function readText({ body }: Response) {
  assert.ok(body !== null);
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  return {
    async until(wanted: RegExp) {
      while (!wanted.test(text)) {
        const { value, done } = await reader.read();
        assert.ok(!done, "the stream has ended");
        text += value;
      }
    },
  };
}

async function secretCommand(t: TestContext, dev: DevProgram, step: "rotate" | "finish") {
  const args = ["admin", "secret", step, dev.account, "--db", dev.db];
  const { stdout, code, stderr } = await runProgram(t, args);
  assert.equal(code, 0, stderr);
  // The present one, and after it the next.
  return stdout.match(/whsec_[\w+/=]+/g)?.at(-1) ?? "";
}

function look(dev: DevProgram, box: string) {
  return dev.call("GET /dev/inbox/:box", { path: `/dev/inbox/${box}` });
}

function setAnswers(dev: DevProgram, box: string, body: object) {
  return dev.call("PUT /dev/inbox/:box/answers", { path: `/dev/inbox/${box}/answers`, body });
}

function advance(dev: DevProgram, body: object) {
  return dev.call("POST /dev/clock/advance", { body });
}
