import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";

import { makeCertificate } from "../helpers/certificate.ts";
import { type TestDaemon, createTestAccount, startTestDaemon } from "../helpers/daemon.ts";
import { addresses, startDnsServer } from "../helpers/dns-server.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { type Program, runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { type TaskClient, taskClient } from "../helpers/task-client.ts";
import { startTrap } from "../helpers/trap.ts";

/** The end of a webhook: it is delivered, refused at the attempt, or its post is rejected. */
type Fate = "delivered" | "refused" | "rejected";

const ALLOW = ["127.0.0.1:PORT", "localhost"];

// PORT is the receiver's, OTHER a trap's. Both names of the DNS server resolve to 127.0.0.1.
const FATES: Readonly<Record<string, Fate>> = {
  "127.0.0.1:PORT": "delivered",
  "2130706433:PORT": "delivered",
  "[::ffff:7f00:1]:PORT": "delivered",
  "LOCALHOST:PORT": "delivered",
  "hooks.example.com:PORT": "delivered",
  "127.0.0.1:OTHER": "rejected",
  "127.0.0.2:PORT": "rejected",
  "receiver.lan:PORT": "rejected",
  "a.localhost:PORT": "rejected",
  "hooks.example.com:OTHER": "refused",
};

test("webhooks.allow allows its entries and nothing else", async (t) => {
  const receiver = await startReceiver(t, { host: "127.0.0.1" });
  const trap = await startTrap(t, { host: receiver.host });
  const dns = await startDnsServer(t);
  for (const name of ["receiver.lan", "hooks.example.com"]) {
    dns.script(name, { A: addresses("127.0.0.1") });
  }
  const withPorts = (text: string): string =>
    text.replace("PORT", String(receiver.port)).replace("OTHER", String(trap.port));
  const entries = JSON.stringify(ALLOW.map(withPorts));
  const toml = `[webhooks]\nallow = ${entries}\ndns_servers = ${JSON.stringify(dns.servers)}\n`;
  const daemon = await startTestDaemon(t, { toml });
  const targets = Object.keys(FATES);

  const posted = await daemon.post(
    targets.map((target) => ({ postback_url: `http://${withPorts(target)}/` })),
  );
  await daemon.daemon.idle();

  const seen = posted.tasks.map(async (task, index) => [
    targets[index],
    await fateOf(daemon, task),
  ]);
  assert.deepEqual(Object.fromEntries(await Promise.all(seen)), FATES);
  assert.deepEqual([trap.connections, receiver.requests.length], [0, 5]);
});

test("a target that is removed from webhooks.allow is refused at the next attempt, with the rule on record", async (t) => {
  const clock = createFakeClock({ now: Date.parse("2030-01-31T09:00:00.000Z") });
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 500 } });
  const before = await startTestDaemon(t, { clock });
  const posted = await before.post({ postback_url: receiver.url("/hook") });
  await before.daemon.idle();
  await before.daemon.stop();

  const { folder, account } = before;
  const strict = { clock, folder, account, toml: "[webhooks]\nallow = []\n" };
  const after = await startTestDaemon(t, strict);
  for (let minutes = 0; minutes < 60; minutes += 20) {
    clock.advance(20 * 60_000);
    await after.daemon.idle();
  }

  const { state, attempts } = await deliveryOf(after, posted.tasks[0]?.id ?? "");
  assert.equal(state, "refused");
  assert.equal(attempts.length, 2);
  const { outcome, http_status, refusal } = attempts[1] ?? assert.fail();
  assert.deepEqual([outcome, http_status], ["refused", null]);
  const rule = "loopback (RFC 1122)";
  assert.deepEqual(refusal, { host: "127.0.0.1", addresses: ["127.0.0.1"], rule });
  assert.equal(receiver.requests.length, 1);
});

interface ShownAttempt {
  readonly outcome: string | null;
  readonly http_status: number | null;
  readonly error: string | null;
  readonly refusal: object | null;
}

async function deliveryOf(daemon: TestDaemon, id: string) {
  const response = await daemon.call(`/v1/tasks/deliveries/${id}`);
  // The contract has this shape.
  const { deliveries } = (await response.json()) as {
    readonly deliveries: readonly {
      readonly state: string;
      readonly attempts: readonly ShownAttempt[];
    }[];
  };
  return deliveries[0] ?? assert.fail("no delivery");
}

async function fateOf(
  daemon: TestDaemon,
  task: { readonly id: string; readonly status_code: number; readonly status_message: string },
): Promise<string> {
  if (task.status_code === 40501) {
    assert.match(task.status_message, /webhooks\.allow/);
    return "rejected";
  }
  const { state, attempts } = await deliveryOf(daemon, task.id);
  if (state === "refused") assert.match(attempts[0]?.error ?? "", /webhooks\.allow/);
  return state;
}

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
