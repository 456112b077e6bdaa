import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import type { Server, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";
import { createServer as createTlsServer, setDefaultCACertificates } from "node:tls";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import type { AttemptResult } from "../../src/domain/webhook/delivery.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { listen, startReceiver } from "../helpers/receiver.ts";
import type { Receiver, Reply } from "../helpers/receiver.ts";
import { startTrap } from "../helpers/trap.ts";
import { makeCertificate } from "./certificate.ts";
import { requestTo, startSender, writeHosts } from "./sender-setup.ts";

const HOSTS = ["127.0.0.1 hooks.example.com other.example.com"];
const ALLOW = ["127.0.0.1", "hooks.example.com", "other.example.com"];

// Made once for the file and never changed: an authority that this process trusts, what it signed, and
// a certificate that nobody else signed.
const AUTHORITY = makeCertificate({ commonName: "test authority", isAuthority: true });
const NAMED = { commonName: "hooks.example.com", names: ["hooks.example.com"] };
const CERTIFICATES = {
  named: makeCertificate({ ...NAMED, issuer: AUTHORITY }),
  address: makeCertificate({
    commonName: "receiver",
    addresses: ["127.0.0.1"],
    issuer: AUTHORITY,
  }),
  wildcard: makeCertificate({
    commonName: "example.com",
    names: ["*.example.com"],
    issuer: AUTHORITY,
  }),
  rsa: makeCertificate({ ...NAMED, issuer: AUTHORITY, keyType: "rsa" }),
  lone: makeCertificate(NAMED),
  expired: makeCertificate({ ...NAMED, issuer: AUTHORITY, notAfter: new Date("2020-01-02") }),
};
setDefaultCACertificates([AUTHORITY.cert]);

test("a receiver with a trusted certificate for its name is delivered to", async (t) => {
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

for (const [pair, host, error] of [
  ["named", "other.example.com", "certificate is for another name"],
  ["named", "127.0.0.1", "certificate is for another name"],
  ["address", "hooks.example.com", "certificate is for another name"],
  ["lone", "hooks.example.com", "certificate is not trusted"],
  ["expired", "hooks.example.com", "certificate has expired"],
] as const) {
  test(`a certificate (${pair}) does not serve for ${host}: nothing is sent`, async (t) => {
    const receiver = await startTls(t, pair);
    const sender = startSender(t, { hosts: HOSTS, allow: ALLOW });

    const result = await sender.send(requestTo(`https://${host}:${receiver.port}/`));

    assert.equal(result.outcome, "failed");
    assert.equal(result.error, error);
    assert.equal(result.address, "127.0.0.1");
    assert.equal(receiver.requests.length, 0);
    await receiver.whenDisconnected();
  });
}

test("a wildcard certificate serves for a name of one label more", async (t) => {
  const receiver = await startTls(t, "wildcard");
  const sender = startSender(t, { hosts: HOSTS, allow: ALLOW });

  assert.equal((await sender.send(requestTo(named(receiver)))).outcome, "delivered");
});

test("a certificate for an address serves for that address", async (t) => {
  const receiver = await startTls(t, "address");

  const result = await startSender(t).send(requestTo(receiver.url()));

  assert.equal(result.outcome, "delivered");
});

test("NODE_TLS_REJECT_UNAUTHORIZED=0 changes nothing", async (t) => {
  const receiver = await startTls(t, "lone");
  const hosts = writeHosts(t, HOSTS);

  const result = await sendOnce([named(receiver), "hooks.example.com", hosts], {
    NODE_TLS_REJECT_UNAUTHORIZED: "0",
  });

  assert.equal(result.outcome, "failed");
  assert.equal(result.error, "certificate is not trusted");
  assert.equal(receiver.requests.length, 0);
});

test("the name is told to the receiver before the certificate is chosen, an address is not", async (t) => {
  const told: (string | false | null)[] = [];
  const server = createTlsServer(CERTIFICATES.named, (socket) => socket.destroy());
  server.on("secureConnection", ({ servername }) => told.push(servername));
  const port = await listen(server, { host: "127.0.0.1", port: 0 });
  t.after(() => server.close());
  const sender = startSender(t, { hosts: HOSTS, allow: ALLOW });

  await sender.send(requestTo(`https://hooks.example.com:${port}/`));
  await sender.send(requestTo(`https://127.0.0.1:${port}/`));

  assert.equal(told[0], "hooks.example.com");
  assert.notEqual(told[1], "127.0.0.1");
});

test("a receiver that knows nothing newer than TLS 1.1 is not spoken to", async (t) => {
  const server = createTlsServer({
    ...CERTIFICATES.named,
    minVersion: "TLSv1",
    maxVersion: "TLSv1.1",
    ciphers: "DEFAULT@SECLEVEL=0",
  });
  server.on("tlsClientError", () => {
    // What this is about.
  });

  const result = await sendToServer(t, server);

  assert.equal(result.outcome, "failed");
  assert.equal(result.error, "TLS handshake failed");
});

test("a receiver that wants finite-field Diffie-Hellman, in a group of any size, is not spoken to", async (t) => {
  const server = createTlsServer({
    ...CERTIFICATES.rsa,
    maxVersion: "TLSv1.2",
    ciphers: "DHE-RSA-AES128-GCM-SHA256",
    dhparam: "auto",
  });
  server.on("tlsClientError", () => {
    // What this is about.
  });

  const result = await sendToServer(t, server);

  assert.equal(result.outcome, "failed");
  assert.equal(result.error, "TLS handshake failed");
});

test("a receiver that renegotiates is not followed", async (t) => {
  const server = createTlsServer({ ...CERTIFICATES.rsa, maxVersion: "TLSv1.2" }, (socket) => {
    socket.on("error", () => socket.destroy());
    socket.renegotiate({}, () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  });

  const result = await sendToServer(t, server);

  assert.equal(result.outcome, "failed");
  assert.equal(result.error, "TLS failed");
});

test("proxies named in the environment are not used", async (t) => {
  const proxy = await startTrap(t);
  const receiver = await startTls(t, "named");
  const plain = await startReceiver(t);
  const proxyUrl = `http://127.0.0.1:${proxy.port}`;
  const environment = {
    NODE_USE_ENV_PROXY: "1",
    HTTP_PROXY: proxyUrl,
    http_proxy: proxyUrl,
    HTTPS_PROXY: proxyUrl,
    https_proxy: proxyUrl,
    ALL_PROXY: proxyUrl,
    NO_PROXY: "",
  };
  const rest = ["hooks.example.com", writeHosts(t, HOSTS), writeAuthority(t)];
  const plainUrl = `http://hooks.example.com:${plain.port}/`;

  const results = await Promise.all([
    sendOnce([named(receiver), ...rest], environment),
    sendOnce([plainUrl, ...rest], environment),
  ]);

  for (const result of results) assert.equal(result.outcome, "delivered");
  assert.equal(proxy.connections, 0);
});

test("the deadline covers a TLS handshake that never ends", async (t) => {
  const trap = await startTrap(t);
  const clock = createFakeClock({ now: 0 });

  const sent = startSender(t, { clock }).send(requestTo(`https://127.0.0.1:${trap.port}/`));
  await trap.written;
  clock.advance(10_000);

  const result = await sent;
  assert.equal(result.outcome, "timed_out");
  assert.equal(result.error, "timed out during the TLS handshake");
  assert.equal(result.phases.tlsMs, 10_000);
  await trap.released;
});

for (const [does, respond, error] of [
  ["closes", (socket) => socket.end(), "connection was closed during the TLS handshake"],
  [
    "resets",
    (socket) => socket.resetAndDestroy(),
    "connection was closed during the TLS handshake",
  ],
  [
    "breaks off in the middle of its answer",
    (socket) => socket.end(Buffer.from("160303007a020000", "hex")),
    "connection was closed during the TLS handshake",
  ],
  ["answers garbage", (socket) => socket.write("garbage".repeat(100)), "TLS handshake failed"],
  [
    "alerts",
    (socket) => socket.write(Buffer.from("15030300020228", "hex")),
    "TLS handshake failed",
  ],
  [
    "answers with a record over the limit",
    (socket) => socket.write(Buffer.alloc(70_000, Buffer.from("160303ffff", "hex"))),
    "TLS handshake failed",
  ],
] as const satisfies readonly (readonly [string, (socket: Socket) => void, string])[]) {
  test(`a receiver that ${does} during the TLS handshake makes the attempt fail and holds nothing`, async (t) => {
    const closed = Promise.withResolvers<void>();
    const server = createServer((socket) => {
      socket.on("error", () => socket.destroy());
      socket.once("close", () => closed.resolve());
      socket.once("data", () => respond(socket));
    });
    const port = await listen(server, { host: "127.0.0.1", port: 0 });
    t.after(() => server.close());

    const result = await startSender(t).send(requestTo(`https://127.0.0.1:${port}/`));

    assert.equal(result.outcome, "failed");
    assert.equal(result.error, error);
    assert.equal(result.address, "127.0.0.1");
    await closed.promise;
  });
}

test("a receiver that speaks plain HTTP where TLS is due fails", async (t) => {
  const receiver = await startReceiver(t);

  const result = await startSender(t).send(requestTo(`https://127.0.0.1:${receiver.port}/`));

  assert.equal(result.outcome, "failed");
  assert.equal(result.error, "TLS handshake failed");
  await receiver.whenDisconnected();
});

for (const [how, end] of [
  ["closes", { kind: "close" }],
  ["resets", { kind: "reset" }],
] as const satisfies readonly (readonly [string, Reply])[]) {
  test(`over TLS too, a reused connection that the receiver ${how} unanswered costs no retry`, async (t) => {
    const receiver = await startTls(t, "named");
    const sender = startSender(t, { hosts: HOSTS, allow: ALLOW });
    await sender.send(requestTo(named(receiver)));
    receiver.answerNext(end);

    const result = await sender.send(requestTo(named(receiver)));

    assert.equal(result.outcome, "delivered");
    assert.equal(receiver.connectionsSeen, 2);
  });
}

test("bad certificates leave nothing behind, however many attempts there are", async (t) => {
  const receiver = await startTls(t, "lone");
  const sender = startSender(t, { hosts: HOSTS, allow: ALLOW });

  for (let attempt = 0; attempt < 50; attempt++) {
    const result = await sender.send(requestTo(named(receiver)));
    assert.equal(result.outcome, "failed");
  }

  await receiver.whenDisconnected();
  const open = process.getActiveResourcesInfo().filter((name) => name.startsWith("TCPSocket"));
  assert.deepEqual(open, []);
});

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

function writeAuthority(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "postbackd-tls-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, "authority.pem");
  writeFileSync(path, AUTHORITY.cert);
  return path;
}

/** Sends from a process of its own, with `environment` added to this one's. */
async function sendOnce(
  values: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<AttemptResult> {
  const script = fileURLToPath(new URL("send-once.ts", import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [script, ...values], {
    env: { ...process.env, ...environment },
  });
  return JSON.parse(stdout);
}
