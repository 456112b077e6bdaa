import assert from "node:assert/strict";
import { test } from "node:test";
import { setDefaultCACertificates } from "node:tls";

import type { ServiceAnswer } from "../../src/deliver/service-client.ts";
import { makeCertificate } from "../helpers/certificate.ts";
import { createGate, startReceiver } from "../helpers/receiver.ts";
import { answered, postOf, startByteServer, startClient } from "./service-post.ts";

// Made once for the file and never changed: an authority that this process trusts and what it signed.
const AUTHORITY = makeCertificate({ commonName: "test authority", isAuthority: true });
const LOOPBACK = { commonName: "service", addresses: ["127.0.0.1"] };
const TRUSTED = makeCertificate({ ...LOOPBACK, issuer: AUTHORITY });
const UNTRUSTED: readonly (readonly [string, ReturnType<typeof makeCertificate>])[] = [
  ["certificate is not trusted", makeCertificate(LOOPBACK)],
  [
    "certificate is for another name",
    makeCertificate({ commonName: "127.0.0.1", names: ["service.internal"], issuer: AUTHORITY }),
  ],
  [
    "certificate has expired",
    makeCertificate({ ...LOOPBACK, issuer: AUTHORITY, notAfter: new Date("2020-01-02") }),
  ],
];
setDefaultCACertificates([AUTHORITY.cert]);

test("a service with a trusted certificate is posted to, over one connection", async (t) => {
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

test("a certificate that is not to be trusted is refused, whatever the environment says", async (t) => {
  const before = process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
  process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
  t.after(() => {
    if (before === undefined) delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
    else process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = before;
  });
  const client = startClient(t);

  for (const [error, tls] of UNTRUSTED) {
    const receiver = await startReceiver(t, { tls });
    const answer: ServiceAnswer = await client.post(new URL(receiver.url()), postOf());
    assert.deepEqual(answer, { kind: "unreachable", error });
    assert.equal(receiver.requests.length, 0);
  }
});

test("an abort ends a TLS handshake that never ends", async (t) => {
  const gate = createGate();
  const url = await startByteServer(t, (socket) => void socket.once("data", () => gate.open()));
  const client = startClient(t);
  const abort = new AbortController();

  const answer = client.post(new URL(`https://${url.host}/`), postOf({ signal: abort.signal }));
  await gate.opened;
  abort.abort();
  assert.deepEqual(await answer, { kind: "aborted" });
});

test("HTTPS to a port that speaks HTTP, and the other way round, are failures", async (t) => {
  const plain = await startReceiver(t);
  const secure = await startReceiver(t, { tls: TRUSTED });
  const client = startClient(t);

  const first = await client.post(new URL(`https://127.0.0.1:${plain.port}/`), postOf());
  const second = await client.post(new URL(`http://127.0.0.1:${secure.port}/`), postOf());

  assert.deepEqual(first, { kind: "unreachable", error: "TLS handshake failed" });
  assert.equal(second.kind, "unreachable");
});
