import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { gunzipSync } from "node:zlib";

import { clusterTest } from "../helpers/cluster-test.ts";
import { type TestDaemon, startTestDaemon, tempFolder } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { farStart } from "../helpers/far-start.ts";
import {
  type RawResponse,
  exchange,
  headerLines,
  headerOf,
  openRaw,
  toBytes,
} from "../helpers/raw-http.ts";
import { NOW, postOne } from "./account.ts";
import { TASKS_READY, bearer, taskGet } from "./answer.ts";
import { byOperator, cancelPath, openHeldTasks, request, toPlainAnswer } from "./task-requests.ts";
import { loopbackCertificate, openTls, readToEnd } from "./tls-client.ts";

/** Strict-Transport-Security of each kind of response. */

const HSTS = "strict-transport-security";

/** The header in responses of the API, of pages and of unknown paths. */
async function hstsOf({ url, account }: TestDaemon, lines: readonly string[]) {
  const targets = [TASKS_READY, "/readyz", "/dashboard", "/v1/nothing", "/%zz", "/v1/session"];
  const all = [];
  for (const target of targets) {
    const headers = [bearer({ account }), ...lines];
    all.push(headerLines(await exchange(url, { target, headers }), HSTS));
  }
  return new Set(all.map((each) => each.join()));
}

test("a daemon that serves HTTPS sends Strict-Transport-Security, except for localhost", async (t) => {
  const folder = tempFolder(t);
  const { cert, key } = loopbackCertificate("own");
  writeFileSync(join(folder, "cert.pem"), cert);
  writeFileSync(join(folder, "key.pem"), key, { mode: 0o600 });
  const toml = `tls_cert = "${join(folder, "cert.pem")}"\ntls_key = "${join(folder, "key.pem")}"\n`;
  const { url } = await startTestDaemon(t, { folder, toml });
  const answered = async (host: string): Promise<string> => {
    const socket = await openTls(t, { url, ca: cert });
    socket.write(`GET /readyz HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    return readToEnd(socket);
  };

  assert.match(
    await answered("tasks.example.com"),
    /strict-transport-security: max-age=31536000\r/i,
  );
  for (const host of ["localhost", "LOCALHOST:8443", "app.localhost"]) {
    const text = await answered(host);
    assert.match(text, /^HTTP\/1\.1 200 /);
    assert.doesNotMatch(text, /strict-transport/i, host);
  }
});

async function startBehind(t: TestContext) {
  // The tests themselves come from this machine: trusted, they are the proxy.
  return startTestDaemon(t, { toml: 'trusted_proxies = ["127.0.0.1"]\n' });
}

const YEAR = "max-age=31536000";

test("a response that a trusted proxy sends over HTTPS has Strict-Transport-Security for a year", async (t) => {
  const daemon = await startBehind(t);

  const https = await hstsOf(daemon, ["X-Forwarded-Proto: https"]);

  assert.deepEqual([...https], [YEAR]);
});

test("a response has no Strict-Transport-Security unless a trusted proxy says https", async (t) => {
  const behind = await startBehind(t);
  const alone = await startTestDaemon(t);

  for (const lines of [[], ["X-Forwarded-Proto: http"], ["X-Forwarded-Proto: https, http"]]) {
    assert.deepEqual([...(await hstsOf(behind, lines))], [""], lines.join());
  }
  assert.deepEqual([...(await hstsOf(alone, ["X-Forwarded-Proto: https"]))], [""]);
});

const LATER = "2030-01-31T10:00:00Z";

async function tagOf(daemon: TestDaemon, id: string, method = "GET"): Promise<string | null> {
  const target = taskGet(id, "?collect=false");
  const { status, header } = await request(daemon, { method, target });
  assert.equal(status, 200);
  return header("etag");
}

/** A finished task that was not collected, and its tag. */
async function startFinished(
  t: TestContext,
): Promise<{ daemon: TestDaemon; id: string; tag: string }> {
  const daemon = await startTestDaemon(t);
  const id = await postOne(daemon, { input: [1.5] });
  await daemon.daemon.idle();
  const tag = await tagOf(daemon, id);
  assert(tag !== null);
  return { daemon, id, tag };
}

function ifNoneMatch(...values: readonly string[]): readonly string[] {
  return values.map((value) => `If-None-Match: ${value}`);
}

test("each finished task has a strong tag of its own, an unfinished task has none", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const held = await openHeldTasks(t);
  const toml = `${held.toml}[types.echo]\nrunner = "echo"\n`;
  const daemon = await startTestDaemon(t, { clock, toml });
  const cancelled = await postOne(daemon, { type: "echo", start_at: LATER });
  const finished = [
    await postOne(daemon, { type: "echo" }),
    await postOne(daemon, { type: "echo" }),
    await postOne(daemon, { type: "fail" }),
    await postOne(daemon, { typo: 1 }),
    cancelled,
  ];
  await daemon.daemon.idle();
  assert.equal(
    (await request(daemon, { method: "POST", target: cancelPath(cancelled) })).status,
    200,
  );
  const tags = await Promise.all(finished.map((id) => tagOf(daemon, id)));
  for (const tag of tags) assert.match(tag ?? "", /^"[\x21\x23-\x7e]{20,}"$/);
  assert.equal(new Set(tags).size, finished.length);

  const delayed = await postOne(daemon, { type: "echo", start_at: LATER });
  const running = await postOne(daemon, { type: "hold" });
  const queued = await postOne(daemon, { type: "hold" });
  await held.next();
  for (const id of [delayed, running, queued]) {
    assert.equal(await tagOf(daemon, id), null);
    const known = await request(daemon, { target: taskGet(id), headers: ifNoneMatch("*") });
    assert.equal(known.status, 200);
  }
});

clusterTest(
  "a tag is the same for GET and HEAD, before and after collecting, and after a restart",
  async (t) => {
    const { daemon, id, tag } = await startFinished(t);
    assert.equal(await tagOf(daemon, id, "HEAD"), tag);
    const collected = await request(daemon, { target: taskGet(id) });
    assert.equal(collected.header("etag"), tag);
    assert.equal(await tagOf(daemon, id), tag);
    await daemon.daemon.stop();
    const { folder, account } = daemon;
    const second = await startTestDaemon(t, { folder, account });
    assert.equal(await tagOf(second, id), tag);
  },
);

clusterTest("a 304 collects nothing", async (t) => {
  const { daemon, id, tag } = await startFinished(t);
  const connection = await openRaw(t, daemon.url);
  for (const [method, known] of [
    ["GET", tag],
    ["HEAD", "*"],
  ] as const) {
    const headers = [bearer(daemon), ...ifNoneMatch(known)];
    connection.send(toBytes({ method, target: taskGet(id), headers }));
    assert.equal((await connection.next()).status, 304, method);
  }
  assert.equal((await daemon.ready()).tasks_count, 1);
  // The connection goes on, and a 200 collects.
  connection.send(toBytes({ target: taskGet(id), headers: [bearer(daemon)] }));
  assert.equal(toPlainAnswer(await connection.next()).code, 20000);
  assert.equal((await daemon.ready()).tasks_count, 0);
});

clusterTest("a wait with the task's tag is 304", async (t) => {
  const { daemon, id, tag } = await startFinished(t);
  const headers = ["Prefer: wait=60", ...ifNoneMatch(tag)];
  const got = await request(daemon, { target: taskGet(id), headers });
  assert.deepEqual([got.status, got.header("preference-applied")], [304, "wait=60"]);
});

// As the dashboard requests a response that it does not have yet.
const NOTHING = 'If-None-Match: ""';
const GZIP = "Accept-Encoding: gzip, deflate, br";

test("the dashboard gets compressed responses with a tag, and 304 for the same tag", async (t) => {
  const daemon = await startTestDaemon(t);
  const task = { type: "echo", start_at: farStart() };
  await daemon.post(Array.from({ length: 50 }, () => task));
  const page = await byOperator(daemon);
  const list = (...headers: readonly string[]): Promise<RawResponse> =>
    exchange(daemon.url, { target: "/v1/tasks/search?limit=100", headers });

  const plain = await list(...page, NOTHING);
  const small = await list(...page, GZIP, NOTHING);
  const tag = headerOf(small, "etag") ?? "";
  const same = await list(...page, GZIP, `If-None-Match: ${tag}`);

  assert.equal(headerOf(plain, "content-encoding"), null);
  assert.equal(headerOf(small, "content-encoding"), "gzip");
  assert.equal(headerOf(small, "vary"), "accept-encoding");
  assert.equal(headerOf(small, "cache-control"), "no-store");
  assert.deepEqual(gunzipSync(small.body), plain.body);
  assert.ok(small.body.length < plain.body.length / 4, `${small.body.length}`);
  assert.equal(headerOf(plain, "etag"), tag);
  assert.deepEqual([same.status, same.body.length], [304, 0]);

  for (const accepted of ["deflate", "gzip;q=0, *;q=0", "identity"]) {
    const answer = await list(...page, `Accept-Encoding: ${accepted}`);
    assert.equal(headerOf(answer, "content-encoding"), null, accepted);
    assert.equal(JSON.parse(answer.body.toString()).tasks.length, 50);
  }
  assert.equal(headerOf(await list(...page, GZIP), "etag"), null);
  const byKey = await list(bearer(daemon), GZIP, NOTHING);
  assert.deepEqual([headerOf(byKey, "content-encoding"), headerOf(byKey, "etag")], [null, null]);

  await daemon.post([task]);
  const changed = await list(...page, GZIP, `If-None-Match: ${tag}`);
  assert.equal(changed.status, 200);
  assert.notEqual(headerOf(changed, "etag"), tag);
});
