import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { RequestListener, Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { createServer as createTcpServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { systemClock } from "../../src/domain/clock/clock.ts";
import type { Clock } from "../../src/domain/clock/clock.ts";
import { askHealth } from "../../src/ops/health.ts";
import type { Health, HealthQuestion } from "../../src/ops/health.ts";
import { InstanceLock } from "../../src/store/sqlite/machine/instance-lock.ts";
import { makeCertificate } from "../helpers/certificate.ts";
import { loaded } from "../helpers/config.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { findFreePort } from "../helpers/port.ts";
import { runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";
import { loopbackCertificate } from "../http/tls-client.ts";
import { runHere } from "./in-process.ts";

const READY = '{"status":"ok"}';
const STARTING = '{"status":"unavailable","reason":"starting or stopping"}';
const CERTIFICATE = makeCertificate({ commonName: "postbackd.example.com" });

async function listenOn(t: TestContext, server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

/** A server with these responses one after another; it repeats the last one. */
function answering(...answers: readonly (readonly [status: number, body: string])[]) {
  const left = [...answers];
  const paths: string[] = [];
  const listener: RequestListener = (request, response) => {
    paths.push(`${request.method} ${request.url}`);
    const [status, body] = (left.length > 1 ? left.shift() : left[0]) ?? [500, ""];
    response.writeHead(status, { "content-type": "application/json" }).end(body);
  };
  return { listener, paths };
}

/** Takes the lock of a new database file, as a daemon at the URL does. */
function announce(t: TestContext, url: string | null): string {
  const file = join(temporaryFolder(t), "postbackd.db");
  const lock = InstanceLock.acquire(file);
  if (url !== null) lock.announce(url);
  t.after(() => lock.release());
  return file;
}

function ask(given: Partial<Omit<HealthQuestion, "config">> & { readonly db?: string }) {
  const { db = "/no-such-folder/x.db", ...question } = given;
  const standard = { clock: systemClock, url: null, timeoutMs: 30_000, isPatient: false };
  return askHealth({ ...standard, ...question, config: loaded({ flags: { db } }) });
}

function reasonOf(health: Health): string {
  assert.ok(health.kind === "not ready", health.kind);
  return health.reason;
}

/** A clock whose pauses take no real time. */
function hurriedClock(): Clock {
  let now = 0;
  const setTimer: Clock["setTimer"] = (delayMs, fire) => {
    // Other timers limit one request.
    if (delayMs !== 200) return { cancel() {} };
    const immediate = setImmediate(() => {
      now += delayMs;
      fire();
    });
    return { cancel: () => clearImmediate(immediate) };
  };
  return { now: () => now, monotonic: () => now, uptime: () => now, bootId: () => null, setTimer };
}

test("health requests /readyz at the URL in the lock file", async (t) => {
  const { listener, paths } = answering([200, READY]);
  const port = await listenOn(t, createServer(listener));
  const url = `http://127.0.0.1:${port}`;

  assert.deepEqual(await ask({ db: announce(t, url) }), { kind: "ready", url });
  await ask({ url: new URL(`${url}/behind/proxy/`) });
  assert.deepEqual(paths, ["GET /readyz", "GET /behind/proxy/readyz"]);
});

test("health connects to loopback if the daemon listens everywhere", async (t) => {
  const port = await listenOn(t, createServer(answering([200, READY]).listener));
  const url = `http://127.0.0.1:${port}`;

  assert.deepEqual(await ask({ db: announce(t, `http://0.0.0.0:${port}`) }), {
    kind: "ready",
    url,
  });
  assert.deepEqual(await ask({ url: new URL(`http://0.0.0.0:${port}/`) }), { kind: "ready", url });
  const ipv6 = await ask({ url: new URL("http://[::]:1/") });
  assert.ok(reasonOf(ipv6).startsWith("http://[::1]:1: "));
});

test("health checks the certificate of a given URL, and not of this machine's daemon", async (t) => {
  const server = createTlsServer(CERTIFICATE, answering([200, READY]).listener);
  const port = await listenOn(t, server);
  const url = `https://127.0.0.1:${port}`;

  assert.equal((await ask({ db: announce(t, url) })).kind, "ready");
  assert.match(reasonOf(await ask({ url: new URL(url) })), /certificate/);
});

test("health trusts an authority of the system", async (t) => {
  const certificate = loopbackCertificate("postbackd");
  const server = createTlsServer(certificate, answering([200, READY]).listener);
  const port = await listenOn(t, server);
  const file = join(temporaryFolder(t), "authority.pem");
  writeFileSync(file, certificate.cert);

  const args = ["health", "--url", `https://127.0.0.1:${port}`];
  const { code, stderr } = await runProgram(t, args, { env: { SSL_CERT_FILE: file } });

  assert.equal(code, 0, stderr);
});

const NOT_READY: readonly (readonly [answer: readonly [number, string], reason: RegExp])[] = [
  [[503, STARTING], /: starting or stopping$/],
  [[200, "<html>"], /HTTP 200/],
  [[200, "null"], /HTTP 200/],
  [[503, "{}"], /HTTP 503/],
  [[302, READY], /HTTP 302/],
];

test("a daemon that starts, or another program, is not ready", async (t) => {
  for (const [answer, reason] of NOT_READY) {
    const port = await listenOn(t, createServer(answering(answer).listener));
    assert.match(reasonOf(await ask({ url: new URL(`http://127.0.0.1:${port}`) })), reason);
  }
});

test("health reads no endless response, and reports one that breaks off", async (t) => {
  const endless = createServer((_request, response) => void response.write("x".repeat(5_000)));
  const broken = createServer((_request, response) => {
    response.writeHead(200, { "content-length": "100" }).write("x", () => response.destroy());
  });
  t.after(() => endless.closeAllConnections());

  for (const [server, reason] of [
    [endless, /HTTP 200/],
    [broken, /broke off|closed/],
  ] as const) {
    const port = await listenOn(t, server);
    assert.match(reasonOf(await ask({ url: new URL(`http://127.0.0.1:${port}`) })), reason);
  }
});

test("health finds a development daemon at the configured address, and no other daemon", async (t) => {
  const modes = ["dev", "start", "dev"];
  const port = await listenOn(
    t,
    createServer((_request, response) => {
      response.setHeader("x-postbackd-mode", modes.shift() ?? "dev").end(READY);
    }),
  );
  const folder = temporaryFolder(t);
  const db = join(folder, "postbackd.db");
  const config = loaded({ flags: { db, port: String(port) } });
  const question = { clock: systemClock, url: null, timeoutMs: 30_000, isPatient: false, config };

  assert.deepEqual(await askHealth(question), { kind: "ready", url: `http://127.0.0.1:${port}` });
  assert.match(reasonOf(await askHealth(question)), /postbackd\.db/);

  writeFileSync(db, "");
  assert.match(reasonOf(await askHealth(question)), /postbackd\.db/);
  assert.equal(modes.length, 1);
});

test("health --wait waits for a development daemon", async (t) => {
  const cwd = temporaryFolder(t);
  const port = String(await findFreePort());
  const env = { POSTBACKD_PORT: port };
  startProgram(t, ["dev"], { cwd, env });

  const { code, stdout, stderr } = await runProgram(t, ["health", "--wait"], { cwd, env });

  assert.equal(code, 0, stderr);
  assert.ok(stdout.includes(port));
});

test("health reports that no daemon serves the file, or not yet", async (t) => {
  const db = join(temporaryFolder(t), "postbackd.db");

  assert.match(reasonOf(await ask({ db })), /postbackd\.db/);
  assert.match(reasonOf(await ask({})), /\/no-such-folder\/x\.db/);
  const starting = reasonOf(await ask({ db: announce(t, null) }));
  assert.match(starting, new RegExp(`^process ${process.pid}\\b`));
});

test("health takes a malformed lock file for none", async (t) => {
  const db = join(temporaryFolder(t), "postbackd.db");
  writeFileSync(`${db}.lock`, "this is no database".repeat(100));

  assert.match(reasonOf(await ask({ db })), /postbackd\.db/);
});

test("health reports a live daemon without a response as busy", async (t) => {
  const server = createTcpServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const db = announce(t, `http://127.0.0.1:${port}`);
  const busy = new RegExp(`; process ${process.pid}, .*busy`);

  server.once("connection", (socket) => socket.destroy());
  assert.match(reasonOf(await ask({ db })), busy);

  const clock = createFakeClock({ now: 0 });
  const connection = once(server, "connection");
  const asking = ask({ db, clock, timeoutMs: 5_000 });
  const [socket] = (await connection) as [Socket];
  t.after(() => socket.destroy());
  clock.advance(5_000);
  assert.match(reasonOf(await asking), busy);
});

test("health requests once, and with --wait until the daemon is ready", async (t) => {
  const starting = [503, STARTING] as const;
  for (const [isPatient, kind, asked] of [
    [true, "ready", 3],
    [false, "not ready", 1],
  ] as const) {
    const { listener, paths } = answering(starting, starting, [200, READY]);
    const port = await listenOn(t, createServer(listener));
    const url = new URL(`http://127.0.0.1:${port}`);

    const health = await ask({ url, clock: hurriedClock(), isPatient });

    assert.deepEqual([health.kind, paths.length], [kind, asked]);
  }
});

test("health --wait ends after its timeout with the last reason", async (t) => {
  const { listener, paths } = answering([503, STARTING]);
  const port = await listenOn(t, createServer(listener));
  const url = new URL(`http://127.0.0.1:${port}`);
  const clock = hurriedClock();

  const health = await ask({ url, clock, isPatient: true, timeoutMs: 10_000 });

  assert.match(reasonOf(health), /starting or stopping/);
  assert.ok(clock.monotonic() <= 10_000 && clock.monotonic() >= 9_000, `${clock.monotonic()}`);
  assert.ok(paths.length > 10);
});

test("health exits with 0 for a ready daemon, and with 1 after it was killed", async (t) => {
  const daemon = startProgram(t, ["start", "--port", "0"]);
  const { url, pid, db } = await daemon.ready;
  const { cwd } = daemon;

  const ready = await runHere(t, ["health"], { cwd });
  const elsewhere = await runHere(t, ["health", "--json"], { env: { POSTBACKD_DB: db } });
  daemon.kill("SIGKILL");
  await daemon.exit;
  const dead = await runHere(t, ["health"], { cwd });

  assert.deepEqual([ready.code, ready.stderr], [0, ""]);
  assert.ok(ready.stdout.includes(url));
  assert.deepEqual(JSON.parse(elsewhere.stdout), { ready: true, url, reason: null });
  assert.deepEqual([dead.code, dead.stderr], [1, ""]);
  for (const part of [url, `process ${pid}`, db]) assert.ok(dead.stdout.includes(part));
});

test("health --wait keeps its process alive until the daemon is ready", async (t) => {
  const { listener, paths } = answering([503, STARTING], [503, STARTING], [200, READY]);
  const port = await listenOn(t, createServer(listener));
  const url = `http://127.0.0.1:${port}`;

  const { code, stdout } = await runProgram(t, ["health", "--wait", "--url", url, "--json"]);

  assert.deepEqual([code, paths.length], [0, 3]);
  assert.deepEqual(JSON.parse(stdout), { ready: true, url, reason: null });
});
