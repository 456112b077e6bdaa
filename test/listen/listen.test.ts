import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { createServiceClient } from "../../src/deliver/service-client.ts";
import { verifyPingback, verifyPostback } from "../../src/verify.ts";
import { postOf } from "../deliver/sender-setup.ts";
import { createTestAccount, startTestDaemon, type TestAccount } from "../helpers/daemon.ts";
import { findFreePort } from "../helpers/port.ts";
import { runProgram, startProgram, temporaryFolder, type Program } from "../helpers/program.ts";
import {
  createGate,
  startReceiver,
  type ReceivedRequest,
  type Receiver,
} from "../helpers/receiver.ts";
import { taskClient, type TaskClient } from "../helpers/task-client.ts";
import { loopbackCertificate } from "../http/tls-client.ts";

const TYPES = '[types.a]\nrunner = "echo"\n[types.b]\nrunner = "echo"\n';

interface Setup {
  readonly url: string;
  readonly client: TaskClient;
  readonly account: TestAccount;
  /** The receiver of the task's own URLs. */
  readonly receiver: Receiver;
  /** The developer's receiver. */
  readonly local: Receiver;
}

function tomlOf(retryAfter: string): string {
  const waits = `["${retryAfter}", "${retryAfter}"]`;
  return `[webhooks]\nallow = ["127.0.0.1"]\nretry_after = ${waits}\n${TYPES}`;
}

async function setUp(t: TestContext, { retryAfter = "1s" } = {}) {
  const { url, account, file } = await startTestDaemon(t, { toml: tomlOf(retryAfter) });
  const client = taskClient({ url, key: account.key });
  const [receiver, local] = [await startReceiver(t), await startReceiver(t)];
  return { url, client, account, receiver, local, file };
}

/** Starts `postbackd listen`; `to` is the path at the developer's receiver. */
async function startListen(
  t: TestContext,
  { url, account, local }: Pick<Setup, "url" | "account" | "local">,
  { to = "/", more = [] }: { readonly to?: string; readonly more?: readonly string[] } = {},
): Promise<Program> {
  const args = ["listen", "--url", url, "--forward-to", local.url(to), ...more];
  const program = startProgram(t, args, { env: { POSTBACKD_KEY: account.key } });
  await program.says("webhook secret: ");
  return program;
}

/** The parts that are equal at both receivers: everything except the host. */
function exact({ method, rawHeaders, rawBody }: ReceivedRequest) {
  const pairs = rawHeaders.flatMap((name, i) => (i % 2 === 0 ? [[name, rawHeaders[i + 1]]] : []));
  return { method, headers: pairs.filter(([name]) => !/^host$/i.test(name ?? "")), rawBody };
}

function attemptsAt({ requests }: Receiver): readonly string[] {
  return requests.map(({ headers }) => `${headers["webhook-id"]} ${headers["x-attempt"]}`);
}

test("forwards every attempt of a postback once, byte for byte, and prints a line for each", async (t) => {
  const setup = await setUp(t);
  const { client, receiver, local, account } = setup;
  receiver.answerNext({ kind: "status", status: 500 });
  const listen = await startListen(t, setup, { to: "/local/hook?x=1" });

  const task = { type: "a", input: ["é", 1.5], postback_url: receiver.url("/hook?a=b") };
  const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const headers = { traceparent, tracestate: "x=1" };
  const body = JSON.stringify([task]);
  await client.call("/v1/tasks/task_post", { method: "POST", headers, body });
  const sent = await receiver.waitFor(2);
  const shown = await local.waitFor(2);
  const { code } = await listen.stop();

  assert.deepEqual(shown.map(exact), sent.map(exact));
  assert.deepEqual(
    shown.map(({ url, headers: { traceparent: parent } }) => [url, parent]),
    [
      ["/local/hook?x=1", traceparent],
      ["/local/hook?x=1", traceparent],
    ],
  );
  const [first] = shown;
  const signature = first?.headers["x-signature"];
  assert.ok(await verifyPostback(first?.rawBody ?? "", signature, account.secret));
  assert.equal(code, 0);
  assert.match(listen.stdout, /^\S+Z postback .+ 1: .*204.*valid\n\S+Z postback .+ 2: .+\n$/);
  assert.equal(listen.stderr.split(account.secret).length, 2, "the secret is printed once");
  assert.ok(!(listen.stdout + listen.stderr).includes(account.key.slice(9)));
});

test("--ca is the authority of an HTTPS daemon and an HTTPS receiver", async (t) => {
  const cwd = temporaryFolder(t);
  const tls = loopbackCertificate("private");
  writeFileSync(join(cwd, "cert.pem"), tls.cert);
  writeFileSync(join(cwd, "key.pem"), tls.key);
  writeFileSync(join(cwd, "postbackd.toml"), `[webhooks]\nallow = ["127.0.0.1"]\n${TYPES}`);
  const account = await createTestAccount(join(cwd, "postbackd.db"));
  const files = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
  const { url } = await startProgram(t, ["start", "--port", "0", ...files], { cwd }).ready;
  const [receiver, local] = [await startReceiver(t), await startReceiver(t, { tls })];
  const ca = join(cwd, "cert.pem");

  await startListen(t, { url, account, local }, { more: ["--ca", ca] });
  const poster = createServiceClient({ socketsMax: 1, authorities: [tls.cert] });
  t.after(() => poster.close());
  const headers = { authorization: `Bearer ${account.key}`, "content-type": "application/json" };
  const body = JSON.stringify([{ type: "a", postback_url: receiver.url() }]);
  await poster.post(new URL(`${url}/v1/tasks/task_post`), postOf({ headers, body }));

  assert.equal((await local.next()).method, "POST");
});

test("forwards a pingback to the path of the receiver, with its own URL in a header, and changes no task", async (t) => {
  const setup = await setUp(t);
  const { client, receiver, local, account } = setup;
  const listen = await startListen(t, setup, { to: "/p" });

  const pingback_url = receiver.url("/done?id=$id&tag=$tag");
  const id = await client.post({ type: "a", tag: "a b", pingback_url });
  const [sent] = await receiver.waitFor(1);
  const [shown] = await local.waitFor(1);
  const ready = await (await client.call("/v1/tasks/tasks_ready")).text();
  const deliveries = await (await client.call(`/v1/tasks/deliveries/${id}`)).text();
  await listen.stop();

  assert.ok(sent !== undefined && shown !== undefined);
  const { headers, method, rawBody } = shown;
  const { "x-postbackd-original-url": url = "", "x-signature": signature = "" } = headers;
  const alike = exact(shown).headers.filter(([name]) => name !== "x-postbackd-original-url");
  assert.deepEqual({ method, headers: alike, rawBody }, exact(sent));
  assert.deepEqual([shown.url, url], [sent.url.replace("/done", "/p"), receiver.url(sent.url)]);
  assert.ok(await verifyPingback(url, signature, account.secret));
  assert.match(listen.stdout, / pingback .+valid/);
  assert.ok(ready.includes(id));
  assert.equal(deliveries.match(/"outcome":/g)?.length, 1);
});

test("forwards long bodies and attempts to unreachable receivers, and reports a failing local receiver", async (t) => {
  const setup = await setUp(t);
  const { client, receiver, local } = setup;
  const nobody = `http://127.0.0.1:${await findFreePort()}/`;
  local.answerNext({ kind: "close" }, { kind: "status", status: 503 });
  const listen = await startListen(t, setup, { more: ["--json"] });

  for (const path of ["/1", "/2"]) {
    await client.post({ type: "a", postback_url: receiver.url(path) });
    await local.next();
  }
  await client.post({ type: "a", input: "ш".repeat(70_000), postback_url: receiver.url("/3") });
  const sent = await receiver.waitFor(3);
  const large = await local.next();
  const id = await client.post({ type: "a", postback_url: nobody });
  await local.waitFor(6);
  await listen.stop();

  assert.deepEqual(exact(large), exact(sent[2] ?? assert.fail()));
  const attempts = [1, 2, 3].map((number) => `${id}-postback ${number}`);
  assert.deepEqual(attemptsAt(local).slice(3), attempts);
  const lines = listen.stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    lines.map(({ event, kind, http_status: status }) => [event, kind, status]),
    [null, 503, 204, 204, 204, 204].map((status) => ["forwarded", "postback", status]),
  );
  for (const { signature } of lines) assert.deepEqual(signature, { valid: true, reasons: [] });
});

test("continues after a kill of the daemon: each attempt once, in the order of its delivery", async (t) => {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "postbackd.toml"), tomlOf("1s"));
  const account = await createTestAccount(join(cwd, "postbackd.db"));
  const port = await findFreePort();
  const start = (): Program => startProgram(t, ["start", "--port", String(port)], { cwd });
  const daemon = start();
  const { url } = await daemon.ready;
  const client = taskClient({ url, key: account.key });
  const [receiver, local] = [await startReceiver(t), await startReceiver(t)];
  const listen = await startListen(t, { url, account, local });
  const gate = createGate();
  const reply = { kind: "status", status: 204 } as const;
  receiver.answerNext({ kind: "held", until: gate.opened, reply });

  const held = await client.post({ type: "a", postback_url: receiver.url("/held") });
  await local.waitFor(1);
  daemon.kill("SIGKILL");
  await daemon.exit;
  await listen.says(`${url} (`);
  receiver.answerNext({ kind: "status", status: 500 });
  await start().ready;
  await local.waitFor(3);
  const last = await client.post({ type: "a", postback_url: receiver.url("/last") });
  await local.waitFor(4);
  gate.open();
  await listen.stop();

  const attempts = [1, 2, 3].map((number) => `${held}-postback ${number}`);
  assert.deepEqual(attemptsAt(local), [...attempts, `${last}-postback 1`]);
  assert.deepEqual(local.requests.map(exact), receiver.requests.map(exact));
});

test("forwards only attempts that start later, including retries and redeliveries of older tasks", async (t) => {
  const setup = await setUp(t, { retryAfter: "1h" });
  const { client, receiver, local } = setup;
  const old = await client.post({ type: "a", postback_url: receiver.url("/old") });
  await receiver.waitFor(1);
  receiver.answerNext({ kind: "status", status: 500 });
  const failing = await client.post({ type: "a", postback_url: receiver.url("/failing") });
  await receiver.waitFor(2);
  const listen = await startListen(t, setup);

  await client.call(`/v1/tasks/redeliver/${failing}`, { method: "POST" });
  await local.waitFor(1);
  await client.call(`/v1/tasks/redeliver/${old}`, { method: "POST" });
  await local.waitFor(2);
  await listen.stop();

  assert.deepEqual(attemptsAt(local), [`${failing}-postback 2`, `${old}-postback 1`]);
  assert.deepEqual(local.requests.map(exact), receiver.requests.slice(2).map(exact));
});

test("--type and --tag select the forwarded webhooks", async (t) => {
  const setup = await setUp(t);
  const { client, receiver, local } = setup;
  const listen = await startListen(t, setup, { more: ["--type", "b", "--tag", "mine"] });

  const url = receiver.url("/");
  await client.post({ type: "a", tag: "mine", postback_url: url });
  await client.post({ type: "b", postback_url: url });
  const wanted = await client.post({ type: "b", tag: "mine", postback_url: url });
  await local.waitFor(1);
  await listen.stop();

  assert.deepEqual(attemptsAt(local), [`${wanted}-postback 1`]);
});

test("forwards both signatures during a rotation of the secret", async (t) => {
  const setup = await setUp(t);
  const { client, receiver, local, account, file } = setup;
  const listen = await startListen(t, setup);
  const rotated = await runProgram(t, ["admin", "secret", "rotate", account.login, "--db", file]);
  assert.equal(rotated.code, 0, rotated.stderr);

  await client.post({ type: "a", postback_url: receiver.url("/") });
  const sent = await receiver.waitFor(1);
  const shown = await local.waitFor(1);
  await listen.stop();

  assert.ok(shown[0]?.headers["x-signature-next"] !== undefined);
  assert.deepEqual(shown.map(exact), sent.map(exact));
  assert.match(listen.stderr, /whsec_\S+, next: whsec_/);
});

test("ends with 40100 for an unknown key, without the key", async (t) => {
  const { url, local } = await setUp(t);
  const other = await createTestAccount(join(temporaryFolder(t), "other.db"), "other");

  const args = ["listen", "--url", url, "--forward-to", local.url("/"), "--key", other.key];
  const finished = await runProgram(t, args);

  assert.deepEqual([finished.code, finished.stdout], [1, ""]);
  assert.match(
    finished.stderr,
    /^postbackd: the daemon refuses .+\(40100\): this key does not exist;/,
  );
  assert.ok(!finished.stderr.includes(other.key.slice(9)));
});
