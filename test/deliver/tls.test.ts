import assert from "node:assert/strict";
import type { Server } from "node:net";
import { test } from "node:test";
import type { TestContext } from "node:test";
import { createServer as createTlsServer, setDefaultCACertificates } from "node:tls";
import type { TlsOptions } from "node:tls";

import type { AttemptResult } from "../../src/domain/webhook/delivery.ts";
import { makeCertificate } from "../helpers/certificate.ts";
import { listen, startReceiver } from "../helpers/receiver.ts";
import type { Receiver, Reply } from "../helpers/receiver.ts";
import { requestTo, startSender } from "./sender-setup.ts";

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
