import assert from "node:assert/strict";
import type { Server } from "node:net";
import { type TestContext, test } from "node:test";
import {
  type TlsOptions,
  createServer as createTlsServer,
  setDefaultCACertificates,
} from "node:tls";

import type { AttemptResult } from "../../src/domain/webhook/delivery.ts";
import { makeCertificate } from "../helpers/certificate.ts";
import {
  type Receiver,
  type Reply,
  createGate,
  listen,
  startReceiver,
} from "../helpers/receiver.ts";
import {
  answered,
  postOf,
  requestTo,
  startByteServer,
  startClient,
  startSender,
} from "./sender-setup.ts";

const HOSTS = ["127.0.0.1 hooks.example.com other.example.com"];
const ALLOW = ["127.0.0.1", "hooks.example.com", "other.example.com"];

const AUTHORITY = makeCertificate({ commonName: "test authority", isAuthority: true });
const NAMED = { commonName: "hooks.example.com", names: ["hooks.example.com"] };
const CERTIFICATES = {
  named: makeCertificate({ ...NAMED, issuer: AUTHORITY }),
  address: makeCertificate({
    ...{ ...NAMED, addresses: ["127.0.0.1"], issuer: AUTHORITY },
  }),
  wildcard: makeCertificate({
    ...{ commonName: "example.com", names: ["*.example.com"], issuer: AUTHORITY },
  }),
  rsa: makeCertificate({ ...NAMED, issuer: AUTHORITY, keyType: "rsa" }),
};
setDefaultCACertificates([AUTHORITY.cert]);

test("a trusted certificate for the name delivers, over one connection", async (t) => {
  const receiver = await startTls(t, "named");
  const sender = startSender(t, { hosts: HOSTS, allow: ALLOW });

  const first = await sender.send(requestTo(named(receiver)));
  const second = await sender.send(requestTo(named(receiver)));

  assert.equal(first.error, null);
  assert.equal(first.outcome, "delivered");
  assert.notEqual(first.phases.tlsMs, null);
  assert.equal(second.phases.tlsMs, null);
  assert.equal(receiver.connectionsSeen, 1);
});

test("a wildcard certificate is valid for a name, and a certificate for an address for the address", async (t) => {
  const wildcard = await startTls(t, "wildcard");
  const address = await startTls(t, "address");
  const sender = startSender(t, { hosts: HOSTS, allow: ALLOW });

  assert.equal((await sender.send(requestTo(named(wildcard)))).outcome, "delivered");
  assert.equal((await sender.send(requestTo(address.url()))).outcome, "delivered");
});

test("SNI has the name of the receiver, and no address", async (t) => {
  const names: (string | false | null)[] = [];
  const server = createTlsServer(CERTIFICATES.address, (socket) => {
    names.push(socket.servername);
    socket.destroy();
  });
  const port = await listen(server, { host: "127.0.0.1", port: 0 });
  t.after(() => server.close());
  const sender = startSender(t, { hosts: HOSTS, allow: ALLOW });

  await sender.send(requestTo(`https://hooks.example.com:${port}/`));
  await sender.send(requestTo(`https://127.0.0.1:${port}/`));

  assert.deepEqual(names, ["hooks.example.com", false]);
});

const HANDSHAKES: Readonly<Record<string, TlsOptions>> = {
  "offers nothing newer than TLS 1.1": {
    ...CERTIFICATES.named,
    ...{ minVersion: "TLSv1", maxVersion: "TLSv1.1", ciphers: "DEFAULT@SECLEVEL=0" },
  },
  "offers only finite-field Diffie-Hellman": {
    ...CERTIFICATES.rsa,
    ...{ maxVersion: "TLSv1.2", ciphers: "DHE-RSA-AES128-GCM-SHA256", dhparam: "auto" },
  },
};

for (const [offer, options] of Object.entries(HANDSHAKES)) {
  test(`an attempt fails if the receiver ${offer}`, async (t) => {
    const server = createTlsServer(options);
    server.on("tlsClientError", () => {});

    const result = await sendToServer(t, server);

    assert.equal(result.outcome, "failed");
    assert.match(result.error ?? "", /TLS handshake/);
  });
}

test("an attempt fails if the receiver renegotiates", async (t) => {
  const server = createTlsServer({ ...CERTIFICATES.rsa, maxVersion: "TLSv1.2" }, (socket) => {
    socket.on("error", () => socket.destroy());
    socket.renegotiate({}, () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  });

  const result = await sendToServer(t, server);

  assert.equal(result.outcome, "failed");
  assert.match(result.error ?? "", /TLS/);
});

for (const [how, end] of [
  ["closes", { kind: "close" }],
  ["resets", { kind: "reset" }],
] as const satisfies readonly (readonly [string, Reply])[]) {
  test(`over TLS an attempt is sent again if the receiver ${how} a reused connection without a response`, async (t) => {
    const receiver = await startTls(t, "named");
    const sender = startSender(t, { hosts: HOSTS, allow: ALLOW });
    await sender.send(requestTo(named(receiver)));
    receiver.answerNext(end);

    const result = await sender.send(requestTo(named(receiver)));

    assert.equal(result.outcome, "delivered");
    assert.equal(receiver.connectionsSeen, 2);
  });
}

function startTls(t: TestContext, pair: keyof typeof CERTIFICATES): Promise<Receiver> {
  return startReceiver(t, { tls: CERTIFICATES[pair] });
}

async function sendToServer(t: TestContext, server: Server): Promise<AttemptResult> {
  const port = await listen(server, { host: "127.0.0.1", port: 0 });
  t.after(() => server.close());
  const sender = startSender(t, { hosts: HOSTS, allow: ALLOW });
  return await sender.send(requestTo(`https://hooks.example.com:${port}/`));
}

function named(receiver: Receiver): string {
  return `https://hooks.example.com:${receiver.port}/`;
}

const LOOPBACK = { commonName: "service", addresses: ["127.0.0.1"] };
const TRUSTED = makeCertificate({ ...LOOPBACK, issuer: AUTHORITY });
const UNTRUSTED = [
  makeCertificate(LOOPBACK),
  makeCertificate({ commonName: "127.0.0.1", names: ["service.internal"], issuer: AUTHORITY }),
  makeCertificate({ ...LOOPBACK, issuer: AUTHORITY, notAfter: new Date("2020-01-02") }),
];
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
