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
import { makeCertificate } from "../deliver/certificate.ts";
import { loaded } from "../helpers/config.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { findFreePort } from "../helpers/port.ts";
import { runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";
import { loopbackCertificate } from "../http/tls-client.ts";

const READY = '{"status":"ok"}';
const STARTING = '{"status":"unavailable","reason":"starting or stopping"}';
const CERTIFICATE = makeCertificate({ commonName: "postbackd.example.com" });

async function listenOn(t: TestContext, server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

/** A server that answers with these, one after the other, the last one again and again. */
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

/** Takes the lock of a new database file, as a daemon that serves at the URL does. */
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

/** Pauses take no time, though the clock says that they did. */
function hurriedClock(): Clock {
  let now = 0;
  const setTimer: Clock["setTimer"] = (delayMs, fire) => {
    // Longer ones, and the odd ones near the end, are limits to a single question.
    if (delayMs !== 200) return { cancel() {} };
    const immediate = setImmediate(() => {
      now += delayMs;
      fire();
    });
    return { cancel: () => clearImmediate(immediate) };
  };
  return { now: () => now, monotonic: () => now, uptime: () => now, bootId: () => null, setTimer };
}

test("asks /readyz where the lock file says that the daemon is", async (t) => {
  const { listener, paths } = answering([200, READY]);
  const port = await listenOn(t, createServer(listener));
  const url = `http://127.0.0.1:${port}`;

  assert.deepEqual(await ask({ db: announce(t, url) }), { kind: "ready", url });
  assert.deepEqual(paths, ["GET /readyz"]);
});

test("goes to loopback for a daemon that listens everywhere", async (t) => {
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

test("keeps the path of a base URL", async (t) => {
  const { listener, paths } = answering([200, READY]);
  const port = await listenOn(t, createServer(listener));

  await ask({ url: new URL(`http://127.0.0.1:${port}/behind/proxy/`) });
  assert.deepEqual(paths, ["GET /behind/proxy/readyz"]);
});

test("checks the certificate of a URL that was given, and not that of this machine's daemon", async (t) => {
  const server = createTlsServer(CERTIFICATE, answering([200, READY]).listener);
  const port = await listenOn(t, server);
  const url = `https://127.0.0.1:${port}`;

  assert.equal((await ask({ db: announce(t, url) })).kind, "ready");
  assert.match(reasonOf(await ask({ url: new URL(url) })), /certificate is not trusted/);
});

test("trusts an authority in the system's store", async (t) => {
  const certificate = loopbackCertificate("postbackd");
  const server = createTlsServer(certificate, answering([200, READY]).listener);
  const port = await listenOn(t, server);
  const file = join(temporaryFolder(t), "authority.pem");
  writeFileSync(file, certificate.cert);

  const args = ["health", "--url", `https://127.0.0.1:${port}`];
  const { code, stderr } = await runProgram(t, args, { env: { SSL_CERT_FILE: file } });

  assert.equal(code, 0, stderr);
});

const NOT_READY: readonly [name: string, answer: readonly [number, string], reason: RegExp][] = [
  ["the daemon's own reason", [503, STARTING], /: starting or stopping$/],
  ["another program's page", [200, "<html>"], /HTTP 200, and not what postbackd answers/],
  ["another program's JSON", [200, "null"], /HTTP 200, and not what postbackd answers/],
  ["another program's error", [503, "{}"], /HTTP 503, and not what postbackd answers/],
  ["a redirect", [302, READY], /HTTP 302/],
];

for (const [name, answer, reason] of NOT_READY) {
  test(`is not ready for ${name}`, async (t) => {
    const port = await listenOn(t, createServer(answering(answer).listener));

    assert.match(reasonOf(await ask({ url: new URL(`http://127.0.0.1:${port}`) })), reason);
  });
}

test("reads no more than a line of ours could be", async (t) => {
  // It sends on and never ends.
  const server = createServer((_request, response) => void response.write("x".repeat(5_000)));
  t.after(() => server.closeAllConnections());
  const port = await listenOn(t, server);

  const reason = reasonOf(await ask({ url: new URL(`http://127.0.0.1:${port}`) }));
  assert.match(reason, /HTTP 200, and not what postbackd answers/);
});

test("finds a daemon for development where it is configured to listen, and no other daemon there", async (t) => {
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
  assert.match(reasonOf(await askHealth(question)), /^nobody serves /);

  // Its own daemon has ended, and another one may be there.
  writeFileSync(db, "");
  assert.match(reasonOf(await askHealth(question)), /^nobody serves /);
  assert.equal(modes.length, 1);
});

test("health --wait waits for a daemon for development", async (t) => {
  const cwd = temporaryFolder(t);
  const port = String(await findFreePort());
  const env = { POSTBACKD_PORT: port };
  startProgram(t, ["dev"], { cwd, env });

  const { code, stdout, stderr } = await runProgram(t, ["health", "--wait"], { cwd, env });

  assert.equal(code, 0, stderr);
  assert.equal(stdout, `Ready at http://127.0.0.1:${port}.\n`);
});

test("says that nobody serves the file, or not yet", async (t) => {
  const db = join(temporaryFolder(t), "postbackd.db");

  assert.match(reasonOf(await ask({ db })), /^nobody serves .*postbackd\.db; start it, or name/);
  assert.match(reasonOf(await ask({})), /^nobody serves \/no-such-folder\/x\.db; /);
  const starting = reasonOf(await ask({ db: announce(t, null) }));
  assert.match(
    starting,
    new RegExp(`^process ${process.pid}, the last to open .*, does not listen yet or has ended`),
  );
});

test("says of a lock file that is no lock file that it cannot be read", async (t) => {
  const db = join(temporaryFolder(t), "postbackd.db");
  writeFileSync(`${db}.lock`, "this is no database".repeat(100));

  assert.match(reasonOf(await ask({ db })), /^nobody serves /);
});

test("gives up a server that says nothing when the time is up", async (t) => {
  const server = createTcpServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  server.on("connection", (socket) => t.after(() => socket.destroy()));
  const { port } = server.address() as AddressInfo;
  const clock = createFakeClock({ now: 0 });

  const connection = once(server, "connection");
  const asking = ask({ url: new URL(`http://127.0.0.1:${port}`), clock, timeoutMs: 5_000 });
  await connection;
  clock.advance(5_000);

  assert.match(reasonOf(await asking), /: no answer in time$/);
});

test("says of a daemon that lives and does not answer that it is busy", async (t) => {
  const server = createTcpServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const db = announce(t, `http://127.0.0.1:${port}`);
  const busy = `process ${process.pid}, which serves ${db}, is busy: a restart would not help`;

  server.once("connection", (socket) => socket.destroy());
  assert.ok(reasonOf(await ask({ db })).endsWith(`without an answer; ${busy}`));

  const clock = createFakeClock({ now: 0 });
  const connection = once(server, "connection");
  const asking = ask({ db, clock, timeoutMs: 5_000 });
  const [socket] = (await connection) as [Socket];
  t.after(() => socket.destroy());
  clock.advance(5_000);
  assert.ok(reasonOf(await asking).endsWith(`: no answer in time; ${busy}`));
});

test("says of an answer that breaks off that it did", async (t) => {
  const port = await listenOn(
    t,
    createServer((_request, response) => {
      response.writeHead(200, { "content-length": "100" });
      response.write("x", () => response.destroy());
    }),
  );

  assert.match(
    reasonOf(await ask({ url: new URL(`http://127.0.0.1:${port}`) })),
    /broke off|closed/,
  );
});

test("asks until the daemon is ready when it is to wait, and once when not", async (t) => {
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

test("stops waiting when the time is up, with the last reason", async (t) => {
  const { listener, paths } = answering([503, STARTING]);
  const port = await listenOn(t, createServer(listener));
  const url = new URL(`http://127.0.0.1:${port}`);
  const clock = hurriedClock();

  const health = await ask({ url, clock, isPatient: true, timeoutMs: 10_000 });

  assert.match(reasonOf(health), /starting or stopping/);
  assert.ok(clock.monotonic() <= 10_000 && clock.monotonic() >= 9_000, `${clock.monotonic()}`);
  assert.ok(paths.length > 10);
});

test("exits with 0 for a daemon that is ready, and with 1 once it was killed", async (t) => {
  const daemon = startProgram(t, ["start", "--port", "0"]);
  const { url, pid, db } = await daemon.ready;
  const { cwd } = daemon;

  const ready = await runProgram(t, ["health"], { cwd });
  const elsewhere = await runProgram(t, ["health", "--json"], { env: { POSTBACKD_DB: db } });
  daemon.kill("SIGKILL");
  await daemon.exit;
  const dead = await runProgram(t, ["health"], { cwd });

  assert.deepEqual(ready, { code: 0, signal: null, stdout: `Ready at ${url}.\n`, stderr: "" });
  assert.deepEqual(JSON.parse(elsewhere.stdout), { ready: true, url, reason: null });
  assert.deepEqual([dead.code, dead.stderr], [1, ""]);
  assert.equal(
    dead.stdout,
    `Not ready: ${url}: connection was refused; process ${pid}, the last to serve ${db}, is stopping or has ended.\n`,
  );
});

test("stays alive while it waits, and ends with 0 as soon as it is ready", async (t) => {
  const { listener, paths } = answering([503, STARTING], [503, STARTING], [200, READY]);
  const port = await listenOn(t, createServer(listener));
  const url = `http://127.0.0.1:${port}`;

  const { code, stdout } = await runProgram(t, ["health", "--wait", "--url", url, "--json"]);

  assert.deepEqual([code, paths.length], [0, 3]);
  assert.deepEqual(JSON.parse(stdout), { ready: true, url, reason: null });
});

test("exits with 2 for a duration or a URL that is none", async (t) => {
  for (const [words, stderr] of [
    [["--timeout", "30"], /^postbackd: --timeout needs a unit: write "30s" for seconds/],
    [["--url", "127.0.0.1:8787"], /^postbackd: --url takes a base URL such as http:/],
    [["--url", "http://127.0.0.1/?x=1"], /^postbackd: --url takes a base URL/],
  ] as const) {
    const finished = await runProgram(t, ["health", ...words]);
    assert.deepEqual([finished.code, finished.stdout], [2, ""]);
    assert.match(finished.stderr, stderr);
  }
});
