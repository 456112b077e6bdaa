import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { createTestAccount } from "../helpers/daemon.ts";
import { addresses, startDnsServer } from "../helpers/dns-server.ts";
import { runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";
import type { Program } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { startTrap } from "../helpers/trap.ts";
import { makeCertificate } from "./certificate.ts";

const AUTHORITY = makeCertificate({ commonName: "test authority", isAuthority: true });
const NAMED = { commonName: "hooks.example.com", names: ["hooks.example.com"] };
const TRUSTED = makeCertificate({ ...NAMED, issuer: AUTHORITY });
const LONE = makeCertificate(NAMED);

interface Setup {
  readonly program: Program;
  post(urls: readonly string[]): Promise<void>;
}

/** The program as a process of its own, whose environment is the test's to spoil. `trust` names the authority's file. */
async function startIn(
  t: TestContext,
  env: Readonly<Record<string, string>>,
  trust = "NODE_EXTRA_CA_CERTS",
): Promise<Setup> {
  const cwd = temporaryFolder(t);
  const account = await createTestAccount(join(cwd, "postbackd.db"));
  const dns = await startDnsServer(t);
  for (const name of ["hooks.example.com", "other.example.com"]) {
    dns.script(name, { A: addresses("127.0.0.1") });
  }
  const authority = join(cwd, "authority.pem");
  writeFileSync(authority, AUTHORITY.cert);
  const flags = ["--allow-target", "127.0.0.1", "--dns-server", dns.servers.join()];
  const program = startProgram(t, ["start", "--port", "0", ...flags], {
    cwd,
    env: { ...env, [trust]: authority },
  });
  const { url } = await program.ready;
  return {
    program,
    async post(urls) {
      const answer = await fetch(`${url}/v1/tasks/task_post`, {
        method: "POST",
        headers: { authorization: `Bearer ${account.key}`, "content-type": "application/json" },
        body: JSON.stringify(urls.map((each) => ({ postback_url: each }))),
      });
      const text = await answer.text();
      assert.equal(text.split('"status_code":20100').length - 1, urls.length, text);
    },
  };
}

test("an environment that turns certificate checks off turns none off for webhooks", async (t) => {
  const trusted = await startReceiver(t, { tls: TRUSTED });
  const lone = await startReceiver(t, { tls: LONE });
  const { program, post } = await startIn(t, { NODE_TLS_REJECT_UNAUTHORIZED: "0" });

  await post([
    `https://hooks.example.com:${trusted.port}/trusted`,
    `https://other.example.com:${trusted.port}/other-name`,
    `https://127.0.0.1:${trusted.port}/address`,
    `https://hooks.example.com:${lone.port}/nobody-signed`,
  ]);

  assert.equal((await trusted.next()).url, "/trusted");
  await program.says('"host":"other.example.com"');
  await program.says('"host":"127.0.0.1"');
  await program.says('"host":"hooks.example.com"');
  const errors = [...program.stderr.matchAll(/"host":"([^"]+)".*"error":"([^"]+)"/g)];
  assert.deepEqual(errors.map(([, host, error]) => `${host}: ${error}`).toSorted(), [
    "127.0.0.1: certificate is for another name",
    "hooks.example.com: certificate is not trusted",
    "other.example.com: certificate is for another name",
  ]);
  assert.match(program.stderr, /NODE_TLS_REJECT_UNAUTHORIZED=0 is set/);
  assert.equal((await program.stop()).code, 0);
  assert.equal(trusted.requests.length, 1);
  assert.equal(lone.requests.length, 0);
});

for (const [where, variable] of [
  ["the system's store", "SSL_CERT_FILE"],
  ["the file of webhooks.ca", "POSTBACKD_WEBHOOKS_CA"],
] as const) {
  test(`webhooks trust an authority in ${where}, and no other`, async (t) => {
    const trusted = await startReceiver(t, { tls: TRUSTED });
    const lone = await startReceiver(t, { tls: LONE });
    const { program, post } = await startIn(t, {}, variable);

    await post([`https://hooks.example.com:${trusted.port}/trusted`]);
    await post([`https://hooks.example.com:${lone.port}/lone`]);

    assert.equal((await trusted.next()).url, "/trusted");
    await program.says('"error":"certificate is not trusted"');
    assert.equal((await program.stop()).code, 0);
    assert.equal(lone.requests.length, 0);
  });
}

for (const [what, text] of [
  ["does not exist", null],
  ["holds no certificate", "-----BEGIN"],
  ["holds a key instead", AUTHORITY.key],
] as const) {
  test(`a start, config check and doctor refuse a webhooks.ca whose file ${what}, and make no database`, async (t) => {
    const cwd = temporaryFolder(t);
    if (text !== null) writeFileSync(join(cwd, "ca.pem"), text);
    writeFileSync(join(cwd, "postbackd.toml"), '[webhooks]\nca = "ca.pem"\n');

    for (const [args, code] of [
      [["start", "--port", "0"], 78],
      [["config", "check"], 78],
      [["doctor"], 1],
    ] as const) {
      const finished = await runProgram(t, args, { cwd });

      assert.equal(finished.code, code, finished.stderr);
      assert.match(finished.stdout + finished.stderr, /ca\.pem \(webhooks\.ca\)/);
    }
    assert.equal(existsSync(join(cwd, "postbackd.db")), false);
  });
}

test("an environment that names proxies sends no webhook through one", async (t) => {
  const proxy = await startTrap(t);
  const plain = await startReceiver(t);
  const secure = await startReceiver(t, { tls: TRUSTED });
  const proxyUrl = `http://127.0.0.1:${proxy.port}`;
  const variables = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].flatMap((name) => [
    [name, proxyUrl] as const,
    [name.toLowerCase(), proxyUrl] as const,
  ]);
  const { program, post } = await startIn(t, {
    ...Object.fromEntries(variables),
    NODE_USE_ENV_PROXY: "1",
    NO_PROXY: "",
    no_proxy: "",
  });

  await post([
    `http://hooks.example.com:${plain.port}/plain`,
    `http://127.0.0.1:${plain.port}/address`,
    `https://hooks.example.com:${secure.port}/secure`,
  ]);
  const arrived = await plain.waitFor(2);
  const third = await secure.next();

  assert.deepEqual(new Set(arrived.map(({ url }) => url)), new Set(["/address", "/plain"]));
  assert.equal(third.url, "/secure");
  assert.equal((await program.stop()).code, 0);
  assert.equal(proxy.connections, 0);
});
