import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { type IncomingMessage, createServer, request } from "node:http";
import { connect } from "node:net";
import { type TestContext, test } from "node:test";

import { H3 } from "h3";

import { toListenError } from "../../src/http/server/listen.ts";
import { openServer } from "../../src/http/server/server.ts";
import { checkInternals, dropRest, sendingOf } from "../../src/node-internals.ts";
import { type Certificate, makeCertificate } from "../helpers/certificate.ts";
import { openRaw, toBytes } from "../helpers/raw-http.ts";
import { startRing } from "./ring.ts";
import { httpsClient, loopbackCertificate, openTls, readToEnd } from "./tls-client.ts";

const LIMITS = {
  connections: 100,
  headerTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  sendTimeoutMs: 30_000,
};
const FIRST = loopbackCertificate("first");
const SECOND = loopbackCertificate("second");
const LISTENING = { host: "127.0.0.1", port: 0, tls: FIRST, limits: LIMITS };

/** The server of an app with `/`, and `/held` whose response the test sends. */
async function startServer(t: TestContext, limits: Partial<typeof LIMITS> = {}) {
  const asked = Promise.withResolvers<void>();
  const held = Promise.withResolvers<string>();
  const app = new H3();
  app.get("/", () => "served");
  app.get("/held", () => {
    asked.resolve();
    return held.promise;
  });
  const server = await openServer(app, { ...LISTENING, limits: { ...LIMITS, ...limits } });
  t.after(() => {
    held.resolve("");
    server.drain();
    return server.quiet();
  });
  const client = httpsClient(t, { url: server.url, trust: [FIRST, SECOND] });
  return { server, url: server.url, client, asked: asked.promise, answer: held.resolve };
}

const OLD = { ciphers: "DEFAULT@SECLEVEL=0" } as const;

async function assertProtected(t: TestContext, url: string, { cert: ca }: Certificate) {
  for (const version of ["TLSv1.2", "TLSv1.3"] as const) {
    const socket = await openTls(t, { url, ca, minVersion: version, maxVersion: version });
    assert.equal(socket.getProtocol(), version);
  }
  for (const version of ["TLSv1", "TLSv1.1"] as const) {
    // At its usual level of security the client itself would refuse so old a version.
    const old = openTls(t, { url, ca, minVersion: version, maxVersion: version, ...OLD });
    await assert.rejects(old, { code: "ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION" });
  }
  const both = await openTls(t, { url, ca, ALPNProtocols: ["h2", "http/1.1"] });
  assert.equal(both.alpnProtocol, "http/1.1");
  const onlyNew = openTls(t, { url, ca, ALPNProtocols: ["h2"] });
  await assert.rejects(onlyNew, { code: "ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL" });
}

test("the server accepts TLS 1.2, TLS 1.3 and HTTP/1.1 alone, after a reload too", async (t) => {
  const { server, url, client } = await startServer(t);
  assert.equal(url, `https://127.0.0.1:${server.port}`);
  assert.deepEqual(await client.get("/"), { status: 200, text: "served", servedBy: "first" });
  await assertProtected(t, url, FIRST);

  server.reloadTls(SECOND);

  await assertProtected(t, url, SECOND);
});

const HELLO = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

test("a connection without a handshake is closed without a response, at the latest after the header timeout", async (t) => {
  const { url, client } = await startServer(t, { headerTimeoutMs: 300 });
  for (const bytes of [toBytes({ target: "/" }), "", HELLO]) {
    const raw = await openRaw(t, url);
    raw.send(bytes);
    assert.equal((await raw.closed()).length, 0, bytes.toString());
  }
  assert.equal((await client.get("/")).status, 200);
});

test("the server survives handshakes that end early or hold noise", async (t) => {
  const { url, client } = await startServer(t);
  const hello = Buffer.from(HELLO, "latin1");
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

test("bytes that are not a request, and headers that do not arrive in time, are 40000 over TLS", async (t) => {
  const { url, client } = await startServer(t, { headerTimeoutMs: 300 });
  for (const bytes of [
    "garbage\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
  ]) {
    const socket = await openTls(t, { url, ca: FIRST.cert });
    socket.write(bytes);
    assert.match(await readToEnd(socket), /^HTTP\/1\.1 400 [^]*\r\n\r\n\{"status_code":40000,/);
  }
  assert.equal((await client.get("/")).status, 200);
});

test("a client can read the response while it sends its body", async (t) => {
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

test("a stop does not wait for a client that sends after its response", async (t) => {
  const { server, url } = await startServer(t);
  const socket = await openTls(t, { url, ca: FIRST.cert, allowHalfOpen: true });
  const headers = ["Connection: close", "Content-Length: 1"];
  socket.write(toBytes({ method: "POST", target: "/unknown", headers }));
  await readToEnd(socket);

  server.drain();
  await server.quiet();
});

test("new connections get a reloaded certificate, and open ones keep theirs", async (t) => {
  const { server, url, client } = await startServer(t);
  await client.get("/");

  server.reloadTls(SECOND);

  const newcomer = httpsClient(t, { url, trust: [FIRST, SECOND] });
  assert.equal((await newcomer.get("/")).servedBy, "second");
  assert.equal((await client.get("/")).servedBy, "first");
});

test("a certificate that cannot be served does not replace the current one", async (t) => {
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

test("the server sends a chain, and the client needs the root alone", async (t) => {
  const root = makeCertificate({ commonName: "root", isAuthority: true });
  const middle = makeCertificate({ commonName: "middle", isAuthority: true, issuer: root });
  const own = makeCertificate({ commonName: "own", addresses: ["127.0.0.1"], issuer: middle });
  const { server, url } = await startServer(t);

  server.reloadTls({ cert: `the server's own\n${own.cert}${middle.cert}`, key: own.key });

  const client = httpsClient(t, { url, trust: [root] });
  assert.equal((await client.get("/")).servedBy, "own");
});

test("a drain closes idle connections first and others after their response", async (t) => {
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

test("a server of plain HTTP has no certificate to reload", async (t) => {
  const server = await openServer(new H3(), { ...LISTENING, tls: null });
  t.after(() => server.drain());

  assert.match(server.url, /^http:/);
  assert.throws(() => server.reloadTls(FIRST), Error);
});

test("a taken address is a ListenError with EADDRINUSE", async (t) => {
  const { server } = await startServer(t);

  const second = openServer(new H3(), { ...LISTENING, port: server.port });

  await assert.rejects(second, { name: "ListenError", message: / \d+: .*EADDRINUSE/ });
});

const FAULTS = [
  ["EADDRINUSE", 8787, /another port/],
  ["EACCES", 443, /from 1024 on with --port/],
  ["EACCES", 8787, /another with --port/],
  ["EADDRNOTAVAIL", 80, /this machine does not have that address/],
  ["ENOTFOUND", 80, /--host/],
  ["EAI_AGAIN", 80, /--host/],
  ["EODD", 80, /--host and --port/],
] as const;

test("a listen error has the host, the port, the code and advice", () => {
  for (const [code, port, advice] of FAULTS) {
    const cause = Object.assign(new Error(`listen ${code}`), { code });
    const { name, message } = toListenError(cause, { host: "h", port });

    assert.equal(name, "ListenError");
    assert.ok(message.startsWith(`cannot listen on h port ${port}: `), message);
    assert.ok(message.includes(code), message);
    assert.match(message, advice);
  }
});

// More than the 511 that Node asks for by itself.
const COMING = 600;
// The kernel of a busy machine may be a moment behind.
const LOOKS_MAX = 200;
const ALLOWED = "/proc/sys/net/core/somaxconn";

/** How many connections of a port on 127.0.0.1 wait to be let in, as the kernel says. */
function waitingConnections(port: number): number {
  const local = `0100007F:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const lines = readFileSync("/proc/net/tcp", "latin1").split("\n");
  const listening = lines
    .map((line) => line.trim().split(/\s+/))
    .find(([, address, , state]) => address === local && state === "0A");
  return Number.parseInt(listening?.[4]?.split(":")[1] ?? "", 16);
}

const isTold = existsSync(ALLOWED) && Number(readFileSync(ALLOWED, "latin1")) >= COMING;
const skip = isTold ? false : "needs Linux, and a kernel that lets so many wait";

test(
  "six hundred simultaneous connections wait in the listening queue",
  { skip },
  async (t: TestContext) => {
    const { url } = await startRing(t);
    const port = Number(new URL(url).port);

    // Nothing is let in between: the kernel alone answers them.
    const sockets = Array.from({ length: COMING }, () => connect({ host: "127.0.0.1", port }));
    // Node connects each at the end of this step.
    await new Promise<void>((resolve) => process.nextTick(resolve));
    let waiting = waitingConnections(port);
    for (let looks = 1; waiting < COMING && looks < LOOKS_MAX; looks++) {
      waiting = waitingConnections(port);
    }
    for (const socket of sockets) socket.destroy();

    assert.equal(waiting, COMING);
  },
);

async function listening(t: TestContext) {
  const server = createServer();
  t.after(() => server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  return { server, port: address.port };
}

test("this version of Node has all internals that a server uses", async (t) => {
  const { server, port } = await listening(t);
  checkInternals(server);

  const client = request({ port, host: "127.0.0.1", method: "POST" });
  client.on("error", () => {});
  t.after(() => client.destroy());
  client.write("a");
  const [message] = (await once(server, "request")) as [IncomingMessage];
  dropRest(message.socket);

  assert.equal(Reflect.get(message.socket, "parser")[3], null);
  assert.deepEqual(sendingOf(message.socket), { taken: 0, unsent: 0 });
});

test("the check of a server without the internals throws their names", () => {
  assert.throws(
    () => checkInternals(createServer()),
    /no _handle\.listen, _handle\.writeQueueSize/,
  );
});

test("a parser that drops the rest of a body is restored at the close of its connection", () => {
  const parserOnBody = (): void => {};
  const parser: Record<number, unknown> = { 3: parserOnBody };
  const socket = Object.assign(new EventEmitter(), { parser });

  dropRest(socket);
  dropRest(socket);
  assert.equal(parser[3], null);
  socket.emit("close");
  assert.equal(parser[3], parserOnBody);
});

test("a parser with another structure stays unchanged", () => {
  const other = (): void => {};
  for (const parser of [null, {}, { 3: other }, { 3: "parserOnBody" }]) {
    const before = { ...parser };
    dropRest(Object.assign(new EventEmitter(), { parser }));
    assert.deepEqual({ ...parser }, before);
  }
  dropRest(new EventEmitter());
});
