import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";
import { setImmediate } from "node:timers/promises";

import { createTestAccount, startTestDaemon } from "../helpers/daemon.ts";
import type { TestDaemon } from "../helpers/daemon.ts";
import { addresses, startDnsServer } from "../helpers/dns-server.ts";
import { farStart } from "../helpers/far-start.ts";
import { findFreePort } from "../helpers/port.ts";
import { runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { columns, documentOf, runHere } from "./in-process.ts";

/** A delivery is given up after its first attempt. */
const ONE_ATTEMPT = "webhooks.retry_after = []";

/** Runs `admin delivery …` on the file of a daemon. */
function delivery(t: TestContext, { file }: { readonly file: string }, ...words: string[]) {
  return runHere(t, ["admin", "delivery", ...words, "--db", file]);
}

function document(t: TestContext, { file }: { readonly file: string }, ...words: string[]) {
  return documentOf(t, ["admin", "delivery", ...words, "--db", file]);
}

async function postOne(daemon: TestDaemon, task: Record<string, unknown>): Promise<string> {
  const { tasks } = await daemon.post(task);
  return tasks[0]?.id ?? assert.fail("no task was made");
}

test("the first line of show explains the delivery, for every outcome", async (t) => {
  const dns = await startDnsServer(t);
  dns.script("hooks.example", { A: addresses("8.8.8.8", "10.1.2.3") });
  const receiver = await startReceiver(t);
  receiver.answer(({ url }) => {
    if (url === "/hang") return { kind: "hang" };
    if (url === "/reset") return { kind: "reset" };
    return { kind: "status", status: Number(url.slice(1)), headers: { location: "/200" } };
  });
  const daemon = await startTestDaemon(t, {
    toml: `${ONE_ATTEMPT}\nwebhooks.timeout = "5s"\nwebhooks.dns_servers = ["${dns.servers[0]}"]`,
  });
  const closed = await findFreePort();
  const peer = `127\\.0\\.0\\.1:${receiver.port}`;
  const explanations: readonly [url: string, explanation: string][] = [
    [receiver.url("/200"), `delivered: ${peer} .*200 `],
    [receiver.url("/500"), `given up .*${peer} .*500`],
    [receiver.url("/302"), `given up .*${peer} .*302.*redirect`],
    [receiver.url("/reset"), `given up .*${peer} closed the connection`],
    [receiver.url("/hang"), `given up .*timed out: .*${peer}`],
    [`http://127.0.0.1:${closed}/`, `given up .*127\\.0\\.0\\.1:${closed}`],
    ["http://nowhere.example/", "given up .*nowhere\\.example does not exist"],
    [
      "http://hooks.example/",
      'refused: hooks\\.example .*webhooks\\.allow = \\["10\\.1\\.2\\.3:80"\\]',
    ],
  ];
  const ids: string[] = [];
  for (const [url] of explanations) ids.push(await postOne(daemon, { postback_url: url }));
  await daemon.daemon.idle();

  for (const [index, [url, explanation]] of explanations.entries()) {
    const { code, stdout, stderr } = await delivery(t, daemon, "show", ids[index] ?? "");
    assert.deepEqual([code, stderr], [0, ""]);
    const [first = "", second = ""] = stdout.split("\n");
    assert.match(first, new RegExp(`^${explanation}`), url);
    const isDelivered = first.startsWith("delivered");
    assert.equal(second.endsWith(`redeliver ${ids[index]} --kind postback`), !isDelivered);
    assert.match(stdout, /\nurl {10}as posted, in encoded form\n/);
  }
});

test("show explains when an unfinished delivery goes on", async (t) => {
  const receiver = await startReceiver(t, {
    reply: { kind: "status", status: 503, headers: { "retry-after": "7" } },
  });
  const daemon = await startTestDaemon(t);
  const retried = await postOne(daemon, { postback_url: receiver.url() });
  await daemon.daemon.idle();
  receiver.answer({ kind: "hang" });
  const held = await postOne(daemon, { postback_url: receiver.url() });
  await receiver.waitFor(2);

  const scheduled = await delivery(t, daemon, "show", retried);
  const inFlight = await document(t, daemon, "show", held);

  assert.match(scheduled.stdout, /^scheduled: attempt 2 .*attempt 1 failed: .*503.*Retry-After 7/);
  assert.match(scheduled.stdout, /\n {2}retry_after +"7"\n/);
  assert.match(inFlight.deliveries[0]?.explanation ?? "", /^in flight to 127\.0\.0\.1 /);
  assert.equal(inFlight.deliveries[0]?.attempts[0]?.outcome, null);
});

test("show explains a task without deliveries, and prints no control character", async (t) => {
  const daemon = await startTestDaemon(t);
  const url = "http://127.0.0.1:9/";
  const plain = await postOne(daemon, {});
  await daemon.daemon.idle();
  const later = await postOne(daemon, { postback_url: url, start_at: farStart() });
  const cancelled = await postOne(daemon, { postback_url: url, start_at: farStart() });
  await daemon.call(`/v1/tasks/task_cancel/${cancelled}`, { method: "POST" });
  const refused = await postOne(daemon, { postback_url: "ftp://x/" });
  const unknown = await postOne(daemon, { "\u001b[31m": 1 });

  const cases: readonly [id: string, explanation: RegExp][] = [
    [plain, /^nothing is sent: .*without postback_url/],
    [later, /^not sent yet: .*queued/],
    [cancelled, /^nothing is sent: .*cancelled/],
    [refused, /^nothing is sent: .*Invalid Field: 'postback_url'/],
    [unknown, /: Unknown Field: '\ufffd\[31m'$/],
  ];
  for (const [id, explanation] of cases) {
    const shown = await document(t, daemon, "show", id);
    assert.match(shown.explanation ?? "", explanation);
  }
  for (const words of [["show"], ["show", "--message"], ["redeliver"]]) {
    const { stdout, stderr } = await delivery(t, daemon, ...words, unknown);
    assert.doesNotMatch(stdout + stderr, /(?!\n)\p{Cc}/u);
  }
  const message = await delivery(t, daemon, "show", later, "--message");
  assert.deepEqual([message.code, message.stdout], [1, ""]);
});

test("show prints the signed bytes and the headers of each attempt as they were sent", async (t) => {
  const receiver = await startReceiver(t);
  receiver.answerNext({ kind: "status", status: 500 });
  const daemon = await startTestDaemon(t, { toml: 'webhooks.retry_after = ["1ms"]' });
  // Attempts have a signature by each secret.
  await documentOf(t, ["admin", "secret", "rotate", "tester", "--db", daemon.file]);
  const id = await postOne(daemon, {
    tag: "ü/ö",
    input: { n: 1, text: "é \u202e" },
    postback_url: receiver.url("/p"),
    pingback_url: receiver.url("/q/../$id?t=$tag"),
  });
  const requests = await receiver.waitFor(3);
  await daemon.daemon.idle();

  const { deliveries } = await document(t, daemon, "show", id);
  const sent = new Map(requests.map((each) => [sentKey(each.headers), each]));
  for (const { kind, attempts, signed, url_steps: steps } of deliveries) {
    for (const { headers } of attempts) {
      const request = sent.get(sentKey(headers)) ?? assert.fail("an attempt that was not received");
      sent.delete(sentKey(headers));
      const names = Object.keys(headers);
      assert.ok(names.includes("x-signature-next"));
      assert.deepEqual(columns([request.headers], ...names), columns([headers], ...names));
      const isPostback = kind === "postback";
      const received = isPostback ? request.rawBody.toString() : receiver.url(request.url);
      assert.equal(signed.message, received);
    }
    if (kind === "pingback") {
      assert.equal(steps.at(-1).url, receiver.url(`/${id}?t=%C3%BC%2F%C3%B6`));
      assert.ok(steps.length > 1);
    }
  }
  assert.equal(sent.size, 0);

  const { stdout } = await delivery(t, daemon, "show", id, "--kind", "postback");
  assert.match(stdout, /\nsigned: .*\d+ bytes.*[0-9a-f]{64}\n\{"status_code":20000/);
  assert.match(stdout, /\nPOST of attempt \d.*\n {2}content-type: /);
  assert.doesNotMatch(stdout, /\u202e|whsec_/);
});

function sentKey(headers: Readonly<Record<string, string>>): string {
  return `${headers["webhook-id"]} ${headers["x-attempt"]}`;
}

test("show --message prints the signed bytes alone, for any HMAC tool", async (t) => {
  const receiver = await startReceiver(t);
  const daemon = await startTestDaemon(t);
  const urls = { postback_url: receiver.url("/p"), pingback_url: receiver.url("/$id") };
  const id = await postOne(daemon, { input: "é\u0085\u202e", ...urls });
  const requests = await receiver.waitFor(2);
  await daemon.daemon.idle();
  const { secret } = daemon.account;

  for (const kind of ["postback", "pingback"]) {
    const { code, stdout } = await delivery(t, daemon, "show", id, "--kind", kind, "--message");
    const request = requests.find(({ method }) => (method === "POST") === (kind === "postback"));
    assert.equal(code, 0);
    assert.equal(
      request?.headers["x-signature"],
      `sha256=${createHmac("sha256", secret).update(stdout).digest("hex")}`,
    );
    const openssl = spawnSync("openssl", ["dgst", "-sha256", "-hmac", secret], { input: stdout });
    if (openssl.status !== 0) continue;
    const [hex] = /[0-9a-f]{64}/.exec(openssl.stdout.toString()) ?? [];
    assert.equal(request?.headers["x-signature"], `sha256=${hex}`);
  }
  const both = await delivery(t, daemon, "show", id, "--message");
  assert.deepEqual([both.code, both.stdout], [1, ""]);
  assert.match(both.stderr, /--kind/);
});

test("show escapes the control characters of a response", async (t) => {
  const evil = "\u001b]0;owned\u0007\u009b31m\u202e\r\nline";
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 500, body: evil } });
  const daemon = await startTestDaemon(t);
  const id = await postOne(daemon, { postback_url: receiver.url("/?q=1") });
  await daemon.daemon.idle();

  const text = await delivery(t, daemon, "show", id);
  const json = await delivery(t, daemon, "show", id, "--json");
  const shown = JSON.parse(json.stdout);

  for (const { stdout } of [text, json]) assert.doesNotMatch(stdout, /(?!\n)[\p{Cc}\p{Cf}]/u);
  assert.ok(
    text.stdout.includes(String.raw`response       "\u001b]0;owned\u0007\u009b31m\u202e\r\nline"`),
    text.stdout,
  );
  assert.equal(shown.deliveries[0]?.attempts[0]?.response_excerpt, evil);
});

test("list shows deliveries newest first, page by page, without their paths", async (t) => {
  const receiver = await startReceiver(t);
  receiver.answer(({ url }) => ({ kind: "status", status: url.includes("bad") ? 500 : 204 }));
  const daemon = await startTestDaemon(t);
  for (const path of ["/good?token=hidden", "/bad?token=hidden", "/good"]) {
    await postOne(daemon, { postback_url: receiver.url(path) });
    await daemon.daemon.idle();
  }

  const all = await document(t, daemon, "list");
  const first = await document(t, daemon, "list", "--limit", "2");
  const before = ["--before", String(first.next_cursor)];
  const rest = await document(t, daemon, "list", ...before);
  const filter = "--outcome failed --since 1h --host 127.0.0.1".split(" ");
  const failed = await delivery(t, daemon, "list", ...filter);
  const none = await delivery(t, daemon, "list", "--until", "1h");
  const other = await delivery(t, daemon, "list", "--host", "BÜCHER.example");

  assert.deepEqual(columns(all.deliveries, "state", "host"), [
    ["delivered", "127.0.0.1"],
    ["scheduled", "127.0.0.1"],
    ["delivered", "127.0.0.1"],
  ]);
  assert.equal(all.next_cursor, null);
  assert.deepEqual([...first.deliveries, ...rest.deliveries], all.deliveries);
  assert.match(failed.stdout, /^ENDED AT +TASK ID +LOGIN +KIND +HOST +STATE +ATTEMPT .*\n.+\n$/);
  assert.match(failed.stdout, / postback +127\.0\.0\.1 +scheduled +1 +failed +500 /);
  assert.doesNotMatch(failed.stdout, /hidden|token/);
  assert.match(none.stdout, /^No delivery/);
  // Not the setting --host, which takes no name beyond ASCII.
  assert.deepEqual([other.code, other.stdout, other.stderr], [0, none.stdout, ""]);
});

test("start --pause-deliveries sends no webhook until they are resumed, also after a restart", async (t) => {
  const receiver = await startReceiver(t);
  const folder = temporaryFolder(t);
  const file = join(folder, "test.db");
  const toml = '[types.echo]\nrunner = "echo"\n[webhooks]\nallow = ["127.0.0.1"]\n';
  const account = await createTestAccount(file);
  const first = await startTestDaemon(t, { toml, folder, account });
  await document(t, { file }, "pause", "--account", "tester");
  // The daemon polls the pauses of other processes once a second.
  while ((await first.daemon.gauges()).lanes.pauses !== 1) await setImmediate();
  await postOne(first, { type: "echo", postback_url: receiver.url("/waits") });
  await first.daemon.idle();
  await first.daemon.stop();
  await document(t, { file }, "resume", "--account", "tester");

  writeFileSync(join(folder, "postbackd.toml"), toml);
  const start = ["start", "--port", "0", "--db", file];
  const elsewhere = async (verb: string) => {
    const { stdout } = await runProgram(t, ["admin", "delivery", verb, "--json", "--db", file]);
    return JSON.parse(stdout);
  };
  const rehearsal = startProgram(t, [...start, "--pause-deliveries"], { cwd: folder });
  await rehearsal.ready;
  await rehearsal.says("all webhooks are paused");
  const { pauses } = await elsewhere("paused");
  const all = [null, null, "start --pause-deliveries", 1];
  assert.deepEqual(columns(pauses, "host", "login", "reason", "waiting"), [all]);
  await rehearsal.stop();
  const again = startProgram(t, start, { cwd: folder });
  await again.ready;
  await again.says('"reason":"start --pause-deliveries","waiting":1');
  assert.equal(receiver.requests.length, 0);
  await elsewhere("resume");

  assert.equal((await receiver.next()).url, "/waits");
  assert.equal(receiver.requests.length, 1);
  await again.stop();
});
