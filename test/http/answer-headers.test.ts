import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { startTestDaemon, tempFolder, type TestDaemon } from "../helpers/daemon.ts";
import { exchange, headerLines, headerOf } from "../helpers/raw-http.ts";
import { ask, bearer, taskGet, TASKS_READY } from "./answer.ts";
import { startTested } from "./operation-cases.ts";
import { loopbackCertificate, openTls, readToEnd } from "./tls-client.ts";

/** What every answer says of who may keep it, and of HTTPS. */

const HSTS = "strict-transport-security";

test("no cache keeps an answer to credentials: accepted, refused or in error", async (t) => {
  const tested = await startTested(t);
  for (const { name, sound, operation } of tested.cases) {
    if (operation.access === "public" && operation.isSignIn !== true) continue;
    const refused = { ...sound, credentials: ["Authorization: Bearer nonsense"] };
    for (const parts of [sound, refused, { ...sound, query: "?nonsense=1" }]) {
      const { response } = await tested.send(parts);
      const lines = headerLines(response, "cache-control");
      assert.deepEqual(lines, ["no-store"], `${name}: ${response.status}`);
    }
  }
});

test("a finished task is kept by no cache, and who has kept it is still told that it is the same", async (t) => {
  const daemon = await startTestDaemon(t);
  const id = (await daemon.post({ input: 1 })).tasks[0]?.id ?? "";
  await daemon.daemon.idle();
  const headers = [bearer(daemon)];
  const first = await ask(daemon.url, { target: taskGet(id), headers });
  const tag = headerOf(first.response, "etag") ?? "";
  const again = [...headers, `If-None-Match: ${tag}`];
  const second = await ask(daemon.url, { target: taskGet(id), headers: again });

  assert.deepEqual([first.response.status, second.response.status], [200, 304]);
  for (const { response } of [first, second]) {
    assert.deepEqual(headerLines(response, "cache-control"), ["no-store"]);
  }
});

/** What each kind of answer says of HTTPS: of the API, of pages, of paths that are none. */
async function hstsOf({ url, account }: TestDaemon, lines: readonly string[]) {
  const targets = [TASKS_READY, "/readyz", "/dashboard", "/v1/nothing", "/%zz", "/v1/session"];
  const all = [];
  for (const target of targets) {
    const headers = [bearer({ account }), ...lines];
    all.push(headerLines(await exchange(url, { target, headers }), HSTS));
  }
  return new Set(all.map((each) => each.join()));
}

test("a daemon that serves HTTPS itself says so too, but not of localhost, whose ports are everybody's", async (t) => {
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

test("an answer that goes out over HTTPS tells browsers to come by HTTPS alone", async (t) => {
  const daemon = await startBehind(t);

  const https = await hstsOf(daemon, ["X-Forwarded-Proto: https"]);

  assert.deepEqual([...https], [YEAR]);
});

test("an answer says nothing of HTTPS where nobody trusted says that it goes that way", async (t) => {
  const behind = await startBehind(t);
  const alone = await startTestDaemon(t);

  for (const lines of [[], ["X-Forwarded-Proto: http"], ["X-Forwarded-Proto: https, http"]]) {
    assert.deepEqual([...(await hstsOf(behind, lines))], [""], lines.join());
  }
  assert.deepEqual([...(await hstsOf(alone, ["X-Forwarded-Proto: https"]))], [""]);
});
