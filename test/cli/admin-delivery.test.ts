import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { createTestAccount, startTestDaemon, tempFolder } from "../helpers/daemon.ts";
import type { TestDaemon } from "../helpers/daemon.ts";
import { addresses, startDnsServer } from "../helpers/dns-server.ts";
import { farStart } from "../helpers/far-start.ts";
import { findFreePort } from "../helpers/port.ts";
import { runProgram, startProgram } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";

/** One attempt is all there is: what fails is given up. */
const ONE_ATTEMPT = "webhooks.retry_after = []";
const UNKNOWN = "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6";
const AT = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC`;

interface ShownAttempt {
  readonly number: number;
  readonly explanation: string;
  readonly outcome: string | null;
  readonly headers: Readonly<Record<string, string>> | null;
  readonly response_excerpt: string | null;
}

interface ShownDelivery {
  readonly kind: string;
  readonly url: string;
  readonly state: string;
  readonly explanation: string;
  readonly url_steps: readonly { readonly step: string; readonly url: string }[];
  readonly attempts: readonly ShownAttempt[];
  readonly signed: { readonly message: string; readonly bytes: number };
}

interface ShowDocument {
  readonly task_state: string;
  readonly explanation: string | null;
  readonly deliveries: readonly ShownDelivery[];
}

/** Runs `admin delivery …` on the file of a daemon that serves. */
function delivery(t: TestContext, { file }: { readonly file: string }, ...words: string[]) {
  return runProgram(t, ["admin", "delivery", ...words, "--db", file]);
}

/** The same with `--json`, where it is expected to succeed. */
async function document<Document>(
  t: TestContext,
  daemon: { readonly file: string },
  ...words: string[]
): Promise<Document> {
  const { code, stdout, stderr } = await delivery(t, daemon, ...words, "--json");
  assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
  assert.match(stdout, /^\{.*\}\n$/, "one document on one line");
  return JSON.parse(stdout) as Document;
}

async function postOne(daemon: TestDaemon, task: Record<string, unknown>): Promise<string> {
  const { tasks } = await daemon.post(task);
  return tasks[0]?.id ?? assert.fail("no task was made");
}

test("says in its first line why a callback did not arrive, for every way it can go", async (t) => {
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
  const peer = String.raw`127\.0\.0\.1:${receiver.port}`;
  const lost = `given up after 1 attempt, with no retry left; the last one `;
  const explanations: readonly [url: string, explanation: string][] = [
    [
      receiver.url("/200"),
      `delivered: ${peer} answered 200 at ${AT} \\(after [^)]*first byte [^)]*\\)`,
    ],
    [receiver.url("/500"), `${lost}failed: ${peer} answered 500, where only 2xx .* at ${AT} .*`],
    [
      receiver.url("/302"),
      `${lost}failed: ${peer} answered 302, and redirects are not followed, .*`,
    ],
    [
      receiver.url("/reset"),
      `${lost}failed: ${peer} closed the connection without an answer, at .*`,
    ],
    [
      receiver.url("/hang"),
      `${lost}timed out: the time was up before ${peer} answered, at ${AT} \\(after [\\d.]+ m?s[:)].*`,
    ],
    [
      `http://127.0.0.1:${closed}/`,
      `${lost}failed: nothing accepted a connection at 127\\.0\\.0\\.1:${closed}, at ${AT} .*`,
    ],
    [
      "http://nowhere.example/",
      `${lost}failed: the name nowhere\\.example does not exist, at ${AT} .*`,
    ],
    [
      "http://hooks.example/",
      String.raw`refused: hooks\.example resolved to 10\.1\.2\.3 among 2 addresses, where one refused refuses all, ` +
        String.raw`at ${AT}, private-use \(RFC 1918\); allow it with webhooks\.allow = \["10\.1\.2\.3"\]; what is refused is .*`,
    ],
  ];
  const ids: string[] = [];
  for (const [url] of explanations) ids.push(await postOne(daemon, { postback_url: url }));
  await daemon.daemon.idle();

  for (const [index, [url, explanation]] of explanations.entries()) {
    const { code, stdout, stderr } = await delivery(t, daemon, "show", ids[index] ?? "");
    assert.deepEqual([code, stderr], [0, ""]);
    const [first = "", second] = stdout.split("\n");
    assert.match(first, new RegExp(`^${explanation}\\.$`), url);
    const again = `When it is fixed: postbackd admin delivery redeliver ${ids[index]} --kind postback`;
    assert.equal(second, first.startsWith("delivered") ? "" : again);
    assert.match(stdout, /\nurl {10}as posted, in encoded form\n/);
  }
});

test("says of what has not ended yet when it goes on", async (t) => {
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
  const inFlight = await document<ShowDocument>(t, daemon, "show", held);

  assert.match(
    scheduled.stdout,
    new RegExp(
      `^scheduled: attempt 2 is due at ${AT}, in \\d+(\\.\\d)? s; attempt 1 failed: .* 503 with Retry-After 7, `,
    ),
  );
  assert.match(scheduled.stdout, /\n {2}retry_after +"7"\n/);
  assert.match(
    inFlight.deliveries[0]?.explanation ?? "",
    new RegExp(`^in flight to 127\\.0\\.0\\.1 since ${AT}, for `),
  );
  assert.equal(inFlight.deliveries[0]?.attempts[0]?.outcome, null);
});

test("shows an explanation of the task, each delivery and each attempt, and no story", async (t) => {
  const daemon = await startTestDaemon(t, { toml: ONE_ATTEMPT });
  const id = await postOne(daemon, { postback_url: "http://127.0.0.1:9/" });
  await daemon.daemon.idle();

  const shown = await document<ShowDocument>(t, daemon, "show", id);
  const [postback] = shown.deliveries;
  assert(postback !== undefined);
  for (const each of [shown, postback, postback.attempts[0] ?? {}]) {
    assert.deepEqual(["explanation" in each, "story" in each], [true, false]);
  }
});

test("says of a task without deliveries why nothing is sent", async (t) => {
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
    [plain, /^nothing is sent: the task was posted without postback_url and pingback_url$/],
    [later, /^not sent yet: the task, posted at .*, is queued, /],
    [cancelled, new RegExp(`^nothing is sent: the task was cancelled at ${AT}$`)],
    [
      refused,
      /^nothing is sent: task_post refused the task, so it never ran: Invalid Field: 'postback_url'/,
    ],
    [unknown, /: Unknown Field: '\ufffd\[31m'$/],
  ];
  for (const [id, explanation] of cases) {
    assert.match(
      (await document<ShowDocument>(t, daemon, "show", id)).explanation ?? "",
      explanation,
    );
  }
  for (const words of [["show"], ["show", "--message"], ["redeliver"]]) {
    const { stdout, stderr } = await delivery(t, daemon, ...words, unknown);
    assert.doesNotMatch(stdout + stderr, /(?!\n)\p{Cc}/u);
  }
  const message = await delivery(t, daemon, "show", later, "--message");
  assert.deepEqual([message.code, message.stdout], [1, ""]);
  assert.match(message.stderr, /^postbackd: no message: not sent yet: /);
});

test("says of an attempt that a crash cut short that it was, and that it went out again", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "hang" } });
  const folder = tempFolder(t);
  const file = join(folder, "test.db");
  const { key } = await createTestAccount(file);
  const start = () =>
    startProgram(t, ["start", "--port", "0", "--db", file, "--allow-target", "127.0.0.1"]);
  const first = start();
  const { url } = await first.ready;
  const response = await fetch(`${url}/v1/tasks/task_post`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ postback_url: receiver.url() }),
  });
  const { tasks } = (await response.json()) as {
    readonly tasks: readonly { readonly id: string }[];
  };
  await receiver.waitFor(1);
  first.kill("SIGKILL");
  await first.exit;

  receiver.answer({ kind: "status", status: 204 });
  const second = start();
  await second.ready;
  await receiver.waitFor(2);
  await second.stop();

  const shown = await document<ShowDocument>(t, { file }, "show", tasks[0]?.id ?? "");
  const explanations = shown.deliveries[0]?.attempts.map(({ explanation }) => explanation) ?? [];
  assert.match(
    explanations[0] ?? "",
    /^interrupted: the daemon ended during the attempt, which 127\.0\.0\.1 may have got or not, at .* no retry is used up$/,
  );
  assert.match(explanations[1] ?? "", /^delivered: /);
  const headers = shown.deliveries[0]?.attempts.map((each) => each.headers?.["x-signature"]);
  assert.deepEqual(
    headers,
    receiver.requests.map((each) => each.headers["x-signature"]),
  );
});

test("shows the signed bytes and the very headers that went out with each attempt", async (t) => {
  const receiver = await startReceiver(t);
  receiver.answerNext({ kind: "status", status: 500 });
  const daemon = await startTestDaemon(t, { toml: 'webhooks.retry_after = ["1ms"]' });
  const id = await postOne(daemon, {
    tag: "ü/ö",
    input: { n: 1, text: "é \u202e" },
    postback_url: receiver.url("/p"),
    pingback_url: receiver.url("/q/../$id?t=$tag"),
  });
  const requests = await receiver.waitFor(3);
  await daemon.daemon.idle();

  const { deliveries } = await document<ShowDocument>(t, daemon, "show", id);
  const sent = new Map(requests.map((each) => [sentKey(each.headers), each]));
  const attempts = deliveries.flatMap((each) =>
    each.attempts.map((attempt) => ({ each, attempt })),
  );
  assert.equal(attempts.length, 3);
  for (const { each, attempt } of attempts) {
    const headers = attempt.headers ?? {};
    const request = sent.get(sentKey(headers)) ?? assert.fail("an attempt that was not received");
    for (const [name, value] of Object.entries(headers))
      assert.equal(request.headers[name], value, name);
    const isPostback = each.kind === "postback";
    const received = isPostback ? request.rawBody.toString() : receiver.url(request.url);
    assert.equal(each.signed.message, received);
  }
  const pingback = deliveries.find(({ kind }) => kind === "pingback");
  assert.equal(pingback?.url_steps.at(-1)?.url, receiver.url(`/${id}?t=%C3%BC%2F%C3%B6`));
  assert.ok((pingback?.url_steps.length ?? 0) > 1);

  const { stdout } = await delivery(t, daemon, "show", id, "--kind", "postback");
  assert.match(
    stdout,
    /\nsigned: the body, \d+ bytes, SHA-256 [0-9a-f]{64}\n\{"status_code":20000/,
  );
  assert.match(
    stdout,
    /\nPOST of attempt \d, signed with the account's secrets of now\n {2}content-type: /,
  );
  assert.doesNotMatch(stdout, /\u202e|whsec_/);
});

function sentKey(headers: Readonly<Record<string, string>>): string {
  return `${headers["webhook-id"]} ${headers["x-attempt"]}`;
}

test("--message writes the signed bytes and nothing else, which any HMAC tool can check", async (t) => {
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
  assert.match(both.stderr, /say which with --kind postback or --kind pingback/);
});

test("signs with both secrets while a rotation lasts", async (t) => {
  const receiver = await startReceiver(t);
  const daemon = await startTestDaemon(t);
  const store = await openSqliteStore({ file: daemon.file, writer: "inline", backlogMax: 10 });
  const next = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
  await store.rotateSecret({ login: daemon.account.login, next });
  await store.close();
  const id = await postOne(daemon, { postback_url: receiver.url() });
  const request = await receiver.next();
  await daemon.daemon.idle();

  const { deliveries } = await document<ShowDocument>(t, daemon, "show", id);
  const headers = deliveries[0]?.attempts[0]?.headers ?? {};
  for (const name of ["x-signature", "x-signature-next", "webhook-signature"]) {
    assert.ok((headers[name] ?? "").length > 10, name);
    assert.equal(headers[name], request.headers[name]);
  }
});

test("prints what a receiver answered so that it cannot act on a terminal", async (t) => {
  const evil = "\u001b]0;owned\u0007\u009b31m\u202e\r\nline";
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 500, body: evil } });
  const daemon = await startTestDaemon(t);
  const id = await postOne(daemon, { postback_url: receiver.url("/?q=1") });
  await daemon.daemon.idle();

  const text = await delivery(t, daemon, "show", id);
  const json = await delivery(t, daemon, "show", id, "--json");
  const shown = JSON.parse(json.stdout) as ShowDocument;

  for (const { stdout } of [text, json]) assert.doesNotMatch(stdout, /(?!\n)[\p{Cc}\p{Cf}]/u);
  assert.ok(
    text.stdout.includes(String.raw`response       "\u001b]0;owned\u0007\u009b31m\u202e\r\nline"`),
    text.stdout,
  );
  assert.equal(shown.deliveries[0]?.attempts[0]?.response_excerpt, evil);
});

test("lists deliveries newest first, page by page, without what stands behind the host", async (t) => {
  const receiver = await startReceiver(t);
  receiver.answer(({ url }) => ({ kind: "status", status: url.includes("bad") ? 500 : 204 }));
  const daemon = await startTestDaemon(t);
  for (const path of ["/good?token=hidden", "/bad?token=hidden", "/good"]) {
    await postOne(daemon, { postback_url: receiver.url(path) });
    await daemon.daemon.idle();
  }

  interface ListDocument {
    readonly deliveries: readonly {
      readonly task_id: string;
      readonly host: string;
      readonly state: string;
      readonly next_attempt_at: string | null;
      readonly last_attempt: { readonly number: number; readonly http_status: number } | null;
    }[];
    readonly next_cursor: string | null;
  }
  const all = await document<ListDocument>(t, daemon, "list");
  const first = await document<ListDocument>(t, daemon, "list", "--limit", "2");
  const rest = await document<ListDocument>(
    t,
    daemon,
    "list",
    "--before",
    String(first.next_cursor),
  );
  const failed = await delivery(
    t,
    daemon,
    "list",
    "--outcome",
    "failed",
    "--since",
    "1h",
    "--host",
    "127.0.0.1",
  );
  const none = await delivery(t, daemon, "list", "--until", "1h");
  const other = await delivery(t, daemon, "list", "--host", "BÜCHER.example");

  assert.deepEqual(
    all.deliveries.map(({ state, host, last_attempt: last }) => [state, host, last?.http_status]),
    [
      ["delivered", "127.0.0.1", 204],
      ["scheduled", "127.0.0.1", 500],
      ["delivered", "127.0.0.1", 204],
    ],
  );
  assert.equal(all.next_cursor, null);
  assert.deepEqual([...first.deliveries, ...rest.deliveries], all.deliveries);
  assert.match(failed.stdout, /^ENDED AT +TASK ID +LOGIN +KIND +HOST +STATE .*\n.+\n$/);
  assert.match(failed.stdout, / postback +127\.0\.0\.1 +scheduled +1 +failed +500 /);
  assert.doesNotMatch(failed.stdout, /hidden|token/);
  assert.match(none.stdout, /^No delivery passes the filter\./);
  // The filter is no setting, such as the host to listen on: a name beyond ASCII is one.
  assert.deepEqual([other.code, other.stdout, other.stderr], [0, none.stdout, ""]);
});

const WRONG: readonly [words: string, code: number, stderr: RegExp][] = [
  ["list --state given-up", 2, /--state must be one of scheduled, .*, refused, not "given-up"/],
  ["list --outcome lost", 2, /--outcome must be one of delivered, failed, /],
  ["list --kind both", 2, /--kind must be one of postback, pingback, not "both"/],
  [
    "list --since yesterday",
    2,
    /--since must be an RFC 3339 time such as .* or how long ago: .* not "yesterday"/,
  ],
  ["list --since 2026-02-30T00:00:00Z", 2, /--since must be an RFC 3339 time/],
  ["list --since -1h", 2, /looks like a flag/],
  ["list --since 1h --until 2h", 2, /--since .* has to lie before --until/],
  ["list --limit 0", 2, /--limit must be a whole number from 1 to 1000, not 0/],
  ["list --limit 1e3", 2, /--limit must be/],
  ["list --limit 99999999999999999999", 2, /--limit must be/],
  ["list --before x", 2, /--before must be/],
  ["list --host http://h.example/", 2, /--host must be a host name or an address, without scheme/],
  ["list --host h.example:80", 2, /--host must be/],
  ["list --host [::1]x", 2, /--host must be/],
  ["list --account a/b", 2, /--account must be 1 to 64 characters/],
  ["list --account nobody", 1, /there is no account nobody/],
  ["list --task '", 2, /--task must be the id of a task, a UUID, not "'"/],
  [`show ${UNKNOWN}`, 1, /there is no task with this id/],
  ["show whsec_secret", 1, /there is no task with this id; /],
  ["show", 2, /TASK_ID is missing/],
  [`show ${UNKNOWN} --message --json`, 2, /--message and --json exclude each other/],
  [`show ${UNKNOWN} --message`, 1, /there is no task/],
  ["redeliver", 2, /give the id of a task or a filter, such as --host HOST/],
  ["redeliver --dry-run", 2, /give the id of a task or a filter/],
  ["redeliver --state scheduled", 2, /what is scheduled goes out anyway/],
  ["redeliver --host h.example --rate 0", 2, /--rate must be a whole number from 1 to 1000/],
  ["redeliver --host h.example --rate 1001", 2, /--rate must be/],
  [`redeliver ${UNKNOWN}`, 1, /there is no task with this id/],
  ["redeliver --account nobody", 1, /there is no account nobody/],
  [
    `cancel ${UNKNOWN}`,
    1,
    /there is no order with this id; 'postbackd admin delivery orders' shows all/,
  ],
  ["cancel x", 1, /there is no order with this id/],
];

test("refuses what it cannot mean, names what it can, and repeats no secret", async (t) => {
  const file = join(tempFolder(t), "test.db");
  await createTestAccount(file);
  for (const [words, code, stderr] of WRONG) {
    const finished = await delivery(t, { file }, ...words.split(" "));
    assert.equal(finished.code, code, words);
    assert.match(finished.stderr, stderr, words);
    assert.doesNotMatch(finished.stderr, /whsec_secret|\n {4}at /);
  }
});
