import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, request as httpRequest, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";

import { newWebhookSecret } from "../../src/domain/account/key.ts";
import { signWebhook } from "../../src/domain/webhook/signature.ts";
import {
  verifyExpress,
  verifyNode,
  verifyRequest,
  type ReceiverOptions,
} from "../../src/verify.ts";
import { startClient } from "./calls.ts";

const SECRET = newWebhookSecret();
const BODY = '{"tasks":[{"result":"ü😀"}]}';
const BASE = "https://receiver.example";
const TARGET = "/done?id=0198&t=%C3%BC";

function post(body: string, headers: Readonly<Record<string, string>>): Request {
  return new Request(`${BASE}/postback`, { method: "POST", body, headers });
}

const SIGNED = { "x-signature": signWebhook(BODY, SECRET) };
const PINGED = { "x-signature": signWebhook(BASE + TARGET, SECRET) };

test("a Request is verified, and its body stays to be read", async () => {
  const request = post(BODY, SIGNED);

  assert.equal(await verifyRequest(request, SECRET), true);
  assert.equal(await request.text(), BODY);
  assert.equal(await verifyRequest(post(`${BODY} `, SIGNED), SECRET), false);
  assert.equal(await verifyRequest(post(BODY, {}), SECRET), false);
  const next = newWebhookSecret();
  assert.equal(await verifyRequest(post(BODY, SIGNED), next), false);
  // During a rotation a receiver with the next secret alone accepts webhooks.
  const both = { ...SIGNED, "x-signature-next": signWebhook(BODY, next) };
  assert.equal(await verifyRequest(post(BODY, both), next), true);
});

test("the pingback of a Request is verified by its URL, behind a proxy by the public URL", async () => {
  const direct = new Request(BASE + TARGET, { headers: PINGED });
  const proxied = new Request(`http://10.0.0.1:3000${TARGET}`, { headers: PINGED });

  assert.equal(await verifyRequest(direct, SECRET), true);
  assert.equal(await verifyRequest(proxied, SECRET), false);
  assert.equal(await verifyRequest(proxied, SECRET, { baseUrl: `${BASE}/` }), true);
});

test("a Request with a longer body than allowed, or with another method, is not genuine", async () => {
  const signed = { "x-signature": signWebhook("x".repeat(1000), SECRET) };
  const long = post("x".repeat(1000), signed);
  const put = new Request(BASE, { method: "PUT", body: BODY, headers: SIGNED });

  assert.equal(await verifyRequest(long, SECRET, { bodyBytesMax: 999 }), false);
  assert.equal(await verifyRequest(long, SECRET, { bodyBytesMax: 1000 }), true);
  assert.equal(await verifyRequest(put, SECRET), false);
});

test("a Request that was read before, or without a secret, is a TypeError", async () => {
  const request = post(BODY, SIGNED);
  await request.text();

  await assert.rejects(verifyRequest(request, SECRET), {
    name: "TypeError",
    message: /was read before/,
  });
  for (const one of [post(BODY, SIGNED), new Request(BASE, { method: "PUT" })]) {
    await assert.rejects(verifyRequest(one, []), { name: "TypeError", message: /secret/ });
  }
});

interface Verdict {
  readonly genuine: boolean;
  readonly body: string;
}

/** A server that responds with the verdict of `verifyNode`, and a client of it. */
async function startNode(
  t: TestContext,
  options?: ReceiverOptions,
  before: (request: IncomingMessage) => Promise<unknown> = async () => {},
) {
  const server = createServer((request, response) => {
    const verified = before(request).then(() => verifyNode(request, SECRET, options));
    verified.then(
      ({ genuine, body }) => response.end(JSON.stringify({ genuine, body: text(body) })),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  // A TCP server has one.
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  const ask = async (path: string, init: RequestInit): Promise<Verdict> => {
    const response = await fetch(url + path, init);
    assert.equal(response.status, 200, await response.clone().text());
    return (await response.json()) as Verdict;
  };
  return { url, ask };
}

function text(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

test("a request of node:http is read and verified", async (t) => {
  const { ask } = await startNode(t);
  const init = { method: "POST", body: BODY, headers: SIGNED };

  assert.deepEqual(await ask("/", init), { genuine: true, body: BODY });
  assert.deepEqual(await ask("/", { ...init, body: "{}" }), { genuine: false, body: "{}" });
  assert.deepEqual(await ask("/", { method: "PUT", body: BODY }), { genuine: false, body: "" });
});

test("a body of node:http that is too long is not kept, and its sender gets a response", async (t) => {
  const { ask } = await startNode(t, { bodyBytesMax: 1000 });
  const body = "x".repeat(5_000_000);
  const headers = { "x-signature": signWebhook(body, SECRET) };

  assert.deepEqual(await ask("/", { method: "POST", body, headers }), { genuine: false, body: "" });
});

test("a request of node:http that breaks off is not genuine", async (t) => {
  const seen = Promise.withResolvers<boolean>();
  const server = createServer((request) => {
    void verifyNode(request, SECRET).then(({ genuine }) => seen.resolve(genuine));
    request.once("data", () => sender.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const sender = httpRequest({ port, host: "127.0.0.1", method: "POST", headers: SIGNED });
  sender.on("error", () => {});
  sender.write(BODY);

  assert.equal(await seen.promise, false);
});

test("a pingback to node:http is verified by Host, or by the public URL", async (t) => {
  const direct = await startNode(t);
  const proxied = await startNode(t, { baseUrl: BASE });
  const own = { "x-signature": signWebhook(direct.url + TARGET, SECRET) };

  assert.equal((await direct.ask(TARGET, { headers: own })).genuine, true);
  assert.equal((await direct.ask(TARGET, { headers: PINGED })).genuine, false);
  assert.equal((await proxied.ask(TARGET, { headers: PINGED })).genuine, true);
});

test("a request of node:http that was read before is a TypeError", async (t) => {
  const { url } = await startNode(t, {}, (request) => Array.fromAsync(request));

  const response = await fetch(url, { method: "POST", body: BODY, headers: SIGNED });

  assert.match(await response.text(), /TypeError: .* was read before/);
});

const SOCKET = {};

function express(body: unknown, method = "POST") {
  const headers = { host: "receiver.example", ...(method === "GET" ? PINGED : SIGNED) };
  return { method, originalUrl: TARGET, headers, socket: SOCKET, body };
}

test("a request of Express is verified by the bytes of express.raw()", async () => {
  assert.equal(await verifyExpress(express(Buffer.from(BODY)), SECRET), true);
  assert.equal(await verifyExpress(express(Buffer.from("{}")), SECRET), false);
  assert.equal(await verifyExpress(express(undefined), SECRET), false);
  assert.equal(await verifyExpress(express(undefined, "GET"), SECRET, { baseUrl: BASE }), true);
  assert.equal(await verifyExpress(express(undefined, "GET"), SECRET), false);
});

test("a body that express.json() has parsed is a TypeError with the remedy", async () => {
  await assert.rejects(verifyExpress(express(JSON.parse(BODY)), SECRET), {
    name: "TypeError",
    message: /Object: .*express\.raw/,
  });
});

test("the daemon's own postbacks and pingbacks are genuine", async (t) => {
  const { client, daemon } = await startClient(t);
  const verdicts: boolean[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  const server = createServer((request, response) => {
    void verifyNode(request, daemon.account.secret).then(({ genuine }) => {
      verdicts.push(genuine);
      response.end();
      if (verdicts.length === 2) resolve();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}/done`;

  await client.tasks.run({
    input: 1,
    tag: "a b/ü",
    postback_url: url,
    pingback_url: `${url}?id=$id&t=$tag`,
  });
  await promise;

  assert.deepEqual(verdicts, [true, true]);
});
