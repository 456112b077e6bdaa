import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { makeCertificate } from "../helpers/certificate.ts";
import { createTestAccount } from "../helpers/daemon.ts";
import { addresses, startDnsServer } from "../helpers/dns-server.ts";
import { runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";
import type { Program } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { taskClient, type TaskClient } from "../helpers/task-client.ts";
import { startTrap } from "../helpers/trap.ts";

const AUTHORITY = makeCertificate({ commonName: "test authority", isAuthority: true });
const NAMED = { commonName: "hooks.example.com", names: ["hooks.example.com"] };
const TRUSTED = makeCertificate({ ...NAMED, issuer: AUTHORITY });
const LONE = makeCertificate(NAMED);

interface Setup {
  readonly program: Program;
  readonly client: TaskClient;
}

interface Environment {
  readonly env?: Readonly<Record<string, string>>;
  /** The variable that names the file of the authority. */
  readonly trust: string;
  readonly toml?: string;
}

/** Starts the program with variables of the test. */
async function startIn(
  t: TestContext,
  { env = {}, trust, toml = "" }: Environment,
): Promise<Setup> {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "postbackd.toml"), `[types.echo]\nrunner = "echo"\n${toml}`);
  const { key } = await createTestAccount(join(cwd, "postbackd.db"));
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
  return { program, client: taskClient({ url, key }) };
}

const PROXY_VARIABLES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].flatMap((name) => [
  name,
  name.toLowerCase(),
]);

test("no variable disables certificate checks or adds a proxy to webhooks and HTTP runs", async (t) => {
  const proxy = await startTrap(t);
  const plain = await startReceiver(t);
  const trusted = await startReceiver(t, { tls: TRUSTED });
  const lone = await startReceiver(t, { tls: LONE });
  const service = await startReceiver(t, { reply: { kind: "status", status: 200, body: "7" } });
  const proxies = PROXY_VARIABLES.map((name) => [name, `http://127.0.0.1:${proxy.port}`] as const);
  const env = {
    ...Object.fromEntries(proxies),
    ...{ NODE_USE_ENV_PROXY: "1", NO_PROXY: "", no_proxy: "" },
    NODE_TLS_REJECT_UNAUTHORIZED: "0",
  };
  const toml = `[types.call]\nurl = "${service.url()}"\n`;
  const { program, client } = await startIn(t, { env, toml, trust: "NODE_EXTRA_CA_CERTS" });

  for (const url of [
    `http://hooks.example.com:${plain.port}/plain`,
    `http://127.0.0.1:${plain.port}/address`,
    `https://hooks.example.com:${trusted.port}/trusted`,
    `https://other.example.com:${trusted.port}/other-name`,
    `https://127.0.0.1:${trusted.port}/address`,
    `https://hooks.example.com:${lone.port}/lone`,
  ]) {
    await client.post({ type: "echo", postback_url: url });
  }
  const called = await client.post({ type: "call" });

  assert.equal((await client.ended(called)).result, 7);
  const arrived = (await plain.waitFor(2)).map(({ url }) => url);
  assert.deepEqual(arrived.toSorted(), ["/address", "/plain"]);
  assert.equal((await trusted.next()).url, "/trusted");
  for (const host of ["other.example.com", "127.0.0.1", "hooks.example.com"]) {
    await program.says(`"host":"${host}"`);
  }
  assert.match(program.stderr, /NODE_TLS_REJECT_UNAUTHORIZED=0/);
  assert.equal((await program.stop()).code, 0);
  const failures = [...program.stderr.matchAll(/"host":"([^"]+)".*"error":"certificate [^"]+"/g)];
  assert.equal(failures.length, 3);
  assert.deepEqual([trusted.requests.length, lone.requests.length], [1, 0]);
  assert.equal(proxy.connections, 0);
});

for (const [source, variable] of [
  ["the system's store", "SSL_CERT_FILE"],
  ["the file of webhooks.ca", "POSTBACKD_WEBHOOKS_CA"],
] as const) {
  test(`webhooks trust an authority in ${source}, and no other`, async (t) => {
    const trusted = await startReceiver(t, { tls: TRUSTED });
    const lone = await startReceiver(t, { tls: LONE });
    const { program, client } = await startIn(t, { trust: variable });

    for (const { port } of [trusted, lone]) {
      await client.post({ postback_url: `https://hooks.example.com:${port}/` });
    }

    await trusted.next();
    await program.says('"error":"certificate ');
    assert.equal((await program.stop()).code, 0);
    assert.equal(lone.requests.length, 0);
  });
}

for (const [fault, text, args, exitCode] of [
  ["does not exist", null, ["start", "--port", "0"], 78],
  ["holds no certificate", "-----BEGIN", ["config", "check"], 78],
  ["holds a key", AUTHORITY.key, ["doctor"], 1],
] as const) {
  test(`'${args[0]}' fails, and creates no database, if the file of webhooks.ca ${fault}`, async (t) => {
    const cwd = temporaryFolder(t);
    if (text !== null) writeFileSync(join(cwd, "ca.pem"), text);
    writeFileSync(join(cwd, "postbackd.toml"), '[webhooks]\nca = "ca.pem"\n');

    const { code, stdout, stderr } = await runProgram(t, args, { cwd });

    assert.equal(code, exitCode, stderr);
    assert.match(stdout + stderr, /ca\.pem \(webhooks\.ca\)/);
    assert.equal(existsSync(join(cwd, "postbackd.db")), false);
  });
}
