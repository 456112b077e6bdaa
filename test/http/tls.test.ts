import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test, type TestContext } from "node:test";

import { H3 } from "h3";

import { openServer } from "../../src/http/server/server.ts";
import { makeCertificate } from "../deliver/certificate.ts";
import { openRaw, toBytes } from "../helpers/raw-http.ts";
import { httpsClient, loopbackCertificate, openTls, readToEnd } from "./tls-client.ts";

const LIMITS = {
  connections: 100,
  headerTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  sendTimeoutMs: 30_000,
};
const FIRST = loopbackCertificate("first");
const SECOND = loopbackCertificate("second");

/** The server on an app that answers `/` at once, and `/held` when it is told to. */
async function startServer(t: TestContext, limits: Partial<typeof LIMITS> = {}) {
  const asked = Promise.withResolvers<void>();
  const held = Promise.withResolvers<string>();
  const app = new H3();
  app.get("/", () => "served");
  app.get("/held", () => {
    asked.resolve();
    return held.promise;
  });
  const server = await openServer(app, {
    ...{ host: "127.0.0.1", port: 0, tls: FIRST, limits: { ...LIMITS, ...limits } },
  });
  t.after(() => {
    held.resolve("");
    server.drain();
    return server.quiet();
  });
  const client = httpsClient(t, { url: server.url, trust: [FIRST, SECOND] });
  return { server, url: server.url, client, asked: asked.promise, answer: held.resolve };
}

test("serves HTTPS with the certificate it was given", async (t) => {
  const { server, client } = await startServer(t);

  assert.equal(server.url, `https://127.0.0.1:${server.port}`);
  assert.deepEqual(await client.get("/"), { status: 200, text: "served", servedBy: "first" });
});

for (const version of ["TLSv1.2", "TLSv1.3"] as const) {
  test(`speaks ${version}`, async (t) => {
    const { url } = await startServer(t);

    const socket = await openTls(t, {
      ...{ url, ca: FIRST.cert, minVersion: version, maxVersion: version },
    });

    assert.equal(socket.getProtocol(), version);
  });
}

for (const version of ["TLSv1", "TLSv1.1"] as const) {
  test(`refuses ${version}`, async (t) => {
    const { url, client } = await startServer(t);
    // The client itself would refuse so old a version at any other level.
    const old = {
      minVersion: version,
      maxVersion: version,
      ciphers: "DEFAULT@SECLEVEL=0",
    } as const;

    const refused = openTls(t, { url, ca: FIRST.cert, ...old });

    await assert.rejects(refused, { code: "ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION" });
    assert.equal((await client.get("/")).status, 200);
  });
}

test("agrees on HTTP/1.1 and on nothing else", async (t) => {
  const { url } = await startServer(t);

  const both = await openTls(t, { url, ca: FIRST.cert, ALPNProtocols: ["h2", "http/1.1"] });
  const onlyNew = openTls(t, { url, ca: FIRST.cert, ALPNProtocols: ["h2"] });

  assert.equal(both.alpnProtocol, "http/1.1");
  await assert.rejects(onlyNew, { code: "ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL" });
});

test("ends the connection of a client that speaks plain HTTP, without an answer", async (t) => {
  const { url, client } = await startServer(t);
  const plain = await openRaw(t, url);

  plain.send(toBytes({ target: "/" }));

  assert.equal((await plain.closed()).length, 0);
  assert.equal((await client.get("/")).status, 200);
});

const HALTED: readonly [name: string, bytes: string][] = [
  ["says nothing", ""],
  ["stops in the middle of its hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"],
];
for (const [name, bytes] of HALTED) {
  test(`ends a handshake in which the client ${name}`, async (t) => {
    const { url, client } = await startServer(t, { headerTimeoutMs: 300 });
    const hanging = await openRaw(t, url);

    hanging.send(bytes);

    assert.equal((await hanging.closed()).length, 0);
    assert.equal((await client.get("/")).status, 200);
  });
}

test("survives clients that break off in the middle of a handshake or send noise into it", async (t) => {
  const { url, client } = await startServer(t);
  const hello = Buffer.from("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "latin1");
  for (let length = 1; length <= 200; length += 7) {
    const noisy = await openRaw(t, url);
    noisy.send(Buffer.concat([hello, randomBytes(length)]).subarray(length % 5));
    noisy.send(randomBytes(1000));
    if (length % 2 === 0) noisy.end();
    else noisy.reset();
  }
  const late = await openTls(t, { url, ca: FIRST.cert });
  late.destroy();

  assert.equal((await client.get("/")).status, 200);
});

test("answers what is no request in the contract's shape, over TLS as well", async (t) => {
  const { url, client } = await startServer(t);
  for (const garbage of [
    "garbage\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
  ]) {
    const socket = await openTls(t, { url, ca: FIRST.cert });

    socket.write(garbage);

    assert.match(await readToEnd(socket), /^HTTP\/1\.1 400 [^]*\r\n\r\n\{"status_code":40000,/);
  }
  assert.equal((await client.get("/")).status, 200);
});

test("ends a connection whose headers do not come in time", async (t) => {
  const { url } = await startServer(t, { headerTimeoutMs: 300 });
  const socket = await openTls(t, { url, ca: FIRST.cert });

  socket.write("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ");

  assert.match(await readToEnd(socket), /^HTTP\/1\.1 400 [^]*took too long to arrive/);
});

test("lets a client read a response before the end of its body, over TLS as well", async (t) => {
  const { url } = await startServer(t);
  const socket = await openTls(t, { url, ca: FIRST.cert });
  const body = Buffer.alloc(16_000_000, "x");
  const headers = ["Connection: close", `Content-Length: ${body.length}`];
  socket.pause();

  socket.write(toBytes({ method: "POST", target: "/unknown", headers }));
  await new Promise((resolve, reject) => {
    socket.once("error", reject).write(body, resolve);
  });

  assert.match(await readToEnd(socket), /^HTTP\/1\.1 404 /);
});

test("a stop does not wait for a client that still sends after its response", async (t) => {
  const { server, url } = await startServer(t);
  const socket = await openTls(t, { url, ca: FIRST.cert, allowHalfOpen: true });
  const headers = ["Connection: close", "Content-Length: 1"];
  socket.write(toBytes({ method: "POST", target: "/unknown", headers }));
  await readToEnd(socket);

  server.drain();
  await server.quiet();
});

test("shows a new certificate to new connections, while old ones go on with theirs", async (t) => {
  const { server, url, client } = await startServer(t);
  await client.get("/");

  server.reloadTls(SECOND);

  const newcomer = httpsClient(t, { url, trust: [FIRST, SECOND] });
  assert.equal((await newcomer.get("/")).servedBy, "second");
  assert.equal((await client.get("/")).servedBy, "first");
});

test("keeps its certificate when the new one cannot be served", async (t) => {
  const { server, url } = await startServer(t);
  const faulty = [
    { cert: SECOND.cert, key: FIRST.key },
    { cert: "", key: SECOND.key },
    { cert: SECOND.cert, key: "" },
    { cert: "no certificate", key: "no key" },
  ];

  for (const pair of faulty) {
    assert.throws(() => server.reloadTls(pair), Error);

    const client = httpsClient(t, { url, trust: [FIRST] });
    assert.equal((await client.get("/")).servedBy, "first");
  }
});

test("does not forget a protection with the reload", async (t) => {
  const { server, url } = await startServer(t);
  server.reloadTls(SECOND);
  const old = {
    minVersion: "TLSv1.1",
    maxVersion: "TLSv1.1",
    ciphers: "DEFAULT@SECLEVEL=0",
  } as const;

  await assert.rejects(openTls(t, { url, ca: SECOND.cert, ...old }), {
    code: "ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION",
  });
  await assert.rejects(openTls(t, { url, ca: SECOND.cert, ALPNProtocols: ["h2"] }), {
    code: "ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL",
  });
});

test("sends a chain, so that a client needs the root alone", async (t) => {
  const root = makeCertificate({ commonName: "root", isAuthority: true });
  const middle = makeCertificate({ commonName: "middle", isAuthority: true, issuer: root });
  const own = makeCertificate({ commonName: "own", addresses: ["127.0.0.1"], issuer: middle });
  const { server, url } = await startServer(t);

  server.reloadTls({ cert: `the server's own\n${own.cert}${middle.cert}`, key: own.key });

  const client = httpsClient(t, { url, trust: [root] });
  assert.equal((await client.get("/")).servedBy, "own");
});

test("answers what is under way before it closes, and closes idle connections at once", async (t) => {
  const { server, url, client, asked, answer } = await startServer(t);
  await client.get("/");
  const idle = await openTls(t, { url, ca: FIRST.cert });
  const answered = client.get("/held");
  await asked;

  server.drain();
  await readToEnd(idle);
  answer("late");

  assert.equal((await answered).text, "late");
  await server.quiet();
});

test("has no certificate to replace where it serves plain HTTP", async (t) => {
  const server = await openServer(new H3(), {
    ...{ host: "127.0.0.1", port: 0, tls: null, limits: LIMITS },
  });
  t.after(() => server.drain());

  assert.match(server.url, /^http:/);
  assert.throws(() => server.reloadTls(FIRST), /plain HTTP/);
});

test("says that an address is taken", async (t) => {
  const { server } = await startServer(t);
  const { port } = server;

  const second = openServer(new H3(), { host: "127.0.0.1", port, tls: FIRST, limits: LIMITS });

  await assert.rejects(second, {
    name: "ListenError",
    message: /^cannot listen on 127\.0\.0\.1 port \d+: .*EADDRINUSE.*--port; 0 picks a free one$/,
  });
});
