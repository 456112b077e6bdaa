import assert from "node:assert/strict";
import { test } from "node:test";
import { setDefaultCACertificates } from "node:tls";

import { makeCertificate } from "../helpers/certificate.ts";
import { createGate, startReceiver } from "../helpers/receiver.ts";
import { answered, postOf, startByteServer, startClient } from "./service-post.ts";

// An authority that this process trusts, and certificates by it and others.
const AUTHORITY = makeCertificate({ commonName: "test authority", isAuthority: true });
const LOOPBACK = { commonName: "service", addresses: ["127.0.0.1"] };
const TRUSTED = makeCertificate({ ...LOOPBACK, issuer: AUTHORITY });
const UNTRUSTED = [
  makeCertificate(LOOPBACK),
  makeCertificate({ commonName: "127.0.0.1", names: ["service.internal"], issuer: AUTHORITY }),
  makeCertificate({ ...LOOPBACK, issuer: AUTHORITY, notAfter: new Date("2020-01-02") }),
];
setDefaultCACertificates([AUTHORITY.cert]);

test("posts to a service with a trusted certificate use one connection", async (t) => {
  const reply = { kind: "status", status: 200, body: "ok" } as const;
  const receiver = await startReceiver(t, { tls: TRUSTED, reply });
  const client = startClient(t);

  for (let count = 0; count < 3; count++) {
    const answer = answered(await client.post(new URL(receiver.url()), postOf()));
    assert.equal(answer.body.toString(), "ok");
  }
  assert.equal(receiver.connectionsSeen, 1);
  receiver.answerNext({ kind: "reset" });
  answered(await client.post(new URL(receiver.url()), postOf()));
  assert.deepEqual([receiver.requests.length, receiver.connectionsSeen], [5, 2]);
});

test("an untrusted certificate is rejected despite NODE_TLS_REJECT_UNAUTHORIZED=0", async (t) => {
  const before = process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
  process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
  t.after(() => {
    if (before === undefined) delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
    else process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = before;
  });
  const client = startClient(t);

  for (const tls of UNTRUSTED) {
    const receiver = await startReceiver(t, { tls });
    const answer = await client.post(new URL(receiver.url()), postOf());
    assert(answer.kind === "unreachable");
    assert.match(answer.error, /certificate/);
    assert.equal(receiver.requests.length, 0);
  }
});

test("an abort ends a TLS handshake that hangs", async (t) => {
  const gate = createGate();
  const url = await startByteServer(t, (socket) => void socket.once("data", () => gate.open()));
  const client = startClient(t);
  const abort = new AbortController();

  const answer = client.post(new URL(`https://${url.host}/`), postOf({ signal: abort.signal }));
  await gate.opened;
  abort.abort();
  assert.deepEqual(await answer, { kind: "aborted" });
});

test("HTTPS to a port of HTTP, and HTTP to a port of HTTPS, are unreachable", async (t) => {
  const plain = await startReceiver(t);
  const secure = await startReceiver(t, { tls: TRUSTED });
  const client = startClient(t);

  const first = await client.post(new URL(`https://127.0.0.1:${plain.port}/`), postOf());
  const second = await client.post(new URL(`http://127.0.0.1:${secure.port}/`), postOf());

  assert.equal(first.kind, "unreachable");
  assert.equal(second.kind, "unreachable");
});
