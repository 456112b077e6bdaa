import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { startTestDaemon, tempFolder, type TestDaemon } from "../helpers/daemon.ts";
import { exchange, headerLines } from "../helpers/raw-http.ts";
import { bearer, TASKS_READY } from "./answer.ts";
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
