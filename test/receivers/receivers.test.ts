import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type TestContext, after, before, describe, test } from "node:test";

import { newWebhookSecret } from "../../src/domain/account/key.ts";
import { IdGenerator } from "../../src/domain/id.ts";
import { type TestDaemon, startTestDaemon } from "../helpers/daemon.ts";
import { exchange } from "../helpers/raw-http.ts";
import { atStore } from "../http/session-requests.ts";
import {
  GO,
  type Language,
  PHP,
  PYTHON,
  type ReceiverProcess,
  TYPESCRIPT,
  reasonToSkip,
  startReceiverProcess,
} from "./receiver-process.ts";

const BODY_BYTES_MAX = 8 * 1024 * 1024;
const SECRET = newWebhookSecret();
// Text that each step between a task and its receiver could change.
const TAG = "ü/& $id 😀%20'";
const QUERY = 'tag=$tag&x=%C3%A9 é"%2f+&y=%24id&empty=&';

/** Runs a receiver as a process, with webhooks of a real daemon first, then with forged ones. */
export function exerciseReceiver(language: Language): void {
  const skip = reasonToSkip(language);
  describe(`the receiver in ${language.name}`, { skip }, () => {
    const folder = mkdtempSync(join(tmpdir(), "postbackd-test-"));
    let command: readonly [string, ...string[]];
    before(() => {
      command = language.command(folder);
    });
    after(() => rmSync(folder, { recursive: true, force: true }));

    const start: Start = (t, secrets, publicUrl) =>
      startReceiverProcess(t, {
        ...{ command, secrets },
        ...(publicUrl === undefined ? {} : { publicUrl }),
      });
    describeGenuine(start);
    describeForged(start);
  });
}

type Start = (
  t: TestContext,
  secrets: readonly string[],
  publicUrl?: string,
) => Promise<ReceiverProcess>;

function describeGenuine(start: Start): void {
  test("accepts the webhooks of a task, and responds 200 to repeats without storing them", async (t) => {
    const daemon = await startTestDaemon(t);
    const receiver = await start(t, [daemon.account.secret]);
    const urls = {
      postback_url: `${receiver.url}/postback?${QUERY}`,
      pingback_url: `${receiver.url}/pingback?id=$id&${QUERY}`,
    };

    const id = await runTask(daemon, urls);
    const inbox = receiver.inbox();
    await daemon.call(`/v1/tasks/redeliver/${id}`, { method: "POST" });
    await daemon.daemon.idle();

    assert.deepEqual([...inbox.keys()], [`${id}.pingback`, `${id}.postback`]);
    const got = await daemon.call(`/v1/tasks/task_get/${id}`);
    assert.equal(inbox.get(`${id}.postback`)?.toString(), await got.text());
    const all = await deliveries(daemon, id);
    const pingback = all.find(({ kind }) => kind === "pingback");
    assert.equal(inbox.get(`${id}.pingback`)?.toString(), pingback?.url);
    const statuses = all.map(({ attempts }) => attempts.map((each) => each.http_status));
    assert.deepEqual(statuses, [
      [200, 200],
      [200, 200],
    ]);
    assert.deepEqual(receiver.inbox(), inbox);
    for (const kind of ["postback", "pingback"]) {
      await Promise.all([receiver.says(`new ${kind} ${id}`), receiver.says(`again ${kind} ${id}`)]);
    }
  });

  test("stores one of ten simultaneous repeats, and a body up to its limit", async (t) => {
    const receiver = await start(t, [SECRET]);
    const { id, body } = newBody();
    const headers = [`X-Signature: ${sign(body)}`];
    const posts = Array.from({ length: 10 }, () => postback(receiver, { body, headers }));
    assert.deepEqual(new Set(await Promise.all(posts)), new Set([200]));
    await receiver.says(`new postback ${id}`);
    await receiver.says(`again postback ${id}`, 9);

    const next = newBody();
    const full = next.body + " ".repeat(BODY_BYTES_MAX - Buffer.byteLength(next.body));
    const over = `${full} `;
    const tooMuch = postback(receiver, { body: over, headers: [`X-Signature: ${sign(over)}`] });
    // Some close the connection while the body is being sent: the response is lost.
    assert.match(String(await tooMuch.catch(() => "reset")), /^(413|reset)$/);
    assert.equal(receiver.inbox().size, 1);
    const signed = [`X-Signature: ${sign(full)}`];
    assert.equal(await postback(receiver, { body: full, headers: signed }), 200);
    assert.deepEqual(new Set(receiver.inbox().keys()), new Set([id, next.id].map(nameOf)));
  });

  test("accepts webhooks during a rotation with the old secret, the new secret or both", async (t) => {
    const daemon = await startTestDaemon(t);
    const { login, secret } = daemon.account;
    const next = newWebhookSecret();
    const secrets = [[secret], [secret, next], [next]];
    const receivers = await Promise.all(secrets.map((each) => start(t, each)));

    assert.deepEqual(await statusesOf(daemon, receivers), [200, 200, 401]);
    await atStore(daemon.file, (store) => store.rotateSecret({ login, next }));
    assert.deepEqual(await statusesOf(daemon, receivers), [200, 200, 200]);
    await atStore(daemon.file, (store) => store.finishRotation({ login }));
    assert.deepEqual(await statusesOf(daemon, receivers), [401, 200, 200]);
  });
}

// A proxy in front takes the prefix away.
const PUBLIC_URL = "http://127.0.0.1/acme/";

function describeForged(start: Start): void {
  test("rejects forged webhooks and stores none", async (t) => {
    const receiver = await start(t, [SECRET], PUBLIC_URL);

    await t.test("401 for a postback that its secret did not sign", () =>
      assertPostbacks(receiver),
    );
    await t.test("401 for a pingback of another URL, even with its Host", () =>
      assertPingbacks(receiver),
    );
    await t.test("400 for a signed task id that is not one", () => assertIds(receiver));
    await t.test("404 for other addresses", () => assertAddresses(receiver));
  });

  test("accepts nothing without a secret", async (t) => {
    const { body } = newBody();
    const headers = [`X-Signature: ${sign(body, "")}`];
    let receiver: ReceiverProcess;
    try {
      receiver = await start(t, []);
    } catch (error) {
      assert.match(String(error), /WEBHOOK_SECRETS/);
      return;
    }
    // PHP has no start at which it could refuse.
    assert.equal(await postback(receiver, { body, headers }), 500);
    assert.equal(receiver.inbox().size, 0);
  });
}

async function assertPostbacks(receiver: ReceiverProcess): Promise<void> {
  const { body } = newBody();
  const genuine = sign(body);
  const hex = genuine.slice("sha256=".length);
  const forged: readonly (readonly [string, readonly string[]])[] = [
    [body, []],
    [body, ["X-Signature:"]],
    [body, ["X-Signature: sha256="]],
    [body, [`X-Signature: ${sign(body, newWebhookSecret())}`]],
    [body, [`X-Signature: ${sign(body, "")}`]],
    [body, [`X-Signature: ${sign(body, SECRET.slice("whsec_".length))}`]],
    [body, [`X-Signature: ${hex}`]],
    [body, [`X-Signature: sha256=${hex.toUpperCase()}`]],
    [body, [`X-Signature: ${genuine}0`]],
    [body, [`X-Signature: ${genuine.slice(0, -1)}`]],
    [body, ["X-Signature: sha256=\xff\xfe\xe9"]],
    [body, [`Webhook-Signature: ${genuine}`]],
    [body.replace("done", "dome"), [`X-Signature: ${genuine}`]],
    [`${body}\n`, [`X-Signature: ${genuine}`]],
    ["", [`X-Signature: ${genuine}`]],
    ["\xff\xfe", [`X-Signature: ${genuine}`]],
  ];
  for (const [text, headers] of forged) {
    assert.equal(await postback(receiver, { body: text, headers }), 401, headers[0]);
  }
  assert.equal(receiver.inbox().size, 0);
  // Only the forgery was wrong with them.
  assert.equal(await postback(receiver, { body, headers: [`X-Signature: ${genuine}`] }), 200);
}

async function assertPingbacks(receiver: ReceiverProcess): Promise<void> {
  const base = PUBLIC_URL.slice(0, -1);
  const target = `/pingback?id=${newBody().id}&x=%C3%A9`;
  const other = `https://other.example${target}`;
  const signed = (url: string): string => `X-Signature: ${sign(url)}`;
  const forwarded = ["X-Forwarded-Host: other.example", "X-Forwarded-Proto: https"];
  for (const [sent, headers] of [
    [target, []],
    [target, [signed(target)]],
    [target, [signed(receiver.url + target)]],
    [`${target}&y`, [signed(base + target)]],
    [target.replace("%C3%A9", "%c3%a9"), [signed(base + target)]],
    [target, [signed(other), ...forwarded]],
  ] as const) {
    assert.equal(await pingback(receiver, sent, headers), 401, `${sent} ${headers[0]}`);
  }
  const named = { target, headers: ["Host: other.example", signed(other), ...forwarded] };
  assert.equal((await exchange(receiver.url, { ...named, host: false })).status, 401);
  // The address in the request line is not the receiver's own.
  assert.notEqual(await pingback(receiver, other, [signed(other)]), 200);
  // The bytes of the request line count, an unusual query too.
  for (const query of ["?id=$id", "?id=$id&a=1&a=2&", "?a%5B%5D=%7E&id=$id&+%2B", "?//..&id=$id"]) {
    const odd = `/pingback${query.replace("$id", newBody().id)}`;
    assert.equal(await pingback(receiver, odd, [signed(base + odd)]), 200, query);
  }
  assert.equal(await pingback(receiver, "//pingback", [signed(`${base}//pingback`)]), 404);
}

async function assertIds(receiver: ReceiverProcess): Promise<void> {
  const { size } = receiver.inbox();
  for (const id of ["../../escaped-from-the-inbox-of-webhooks", "", "A".repeat(36)]) {
    const body = JSON.stringify({ tasks: [{ id }] });
    assert.equal(
      await postback(receiver, { body, headers: [`X-Signature: ${sign(body)}`] }),
      400,
      id,
    );
    const target = `/pingback?id=${encodeURIComponent(id)}`;
    const headers = [`X-Signature: ${sign(PUBLIC_URL.slice(0, -1) + target)}`];
    assert.equal(await pingback(receiver, target, headers), 400, id);
  }
  // An observer of a pingback can send its signed URL as the body of a postback.
  const body = `${PUBLIC_URL}pingback?id=01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6`;
  assert.equal(await postback(receiver, { body, headers: [`X-Signature: ${sign(body)}`] }), 400);
  assert.equal(receiver.inbox().size, size);
}

async function assertAddresses({ url }: ReceiverProcess): Promise<void> {
  const { body } = newBody();
  const headers = [`X-Signature: ${sign(body)}`];
  for (const target of ["/", "/postback/", "/other", "/pingback"]) {
    const { status } = await exchange(url, { method: "POST", target, headers, body });
    assert.equal(status, 404, target);
  }
  assert.equal((await exchange(url, { target: "/postback" })).status, 404);
}

function nameOf(id: string): string {
  return `${id}.postback`;
}

function sign(message: string, secret = SECRET): string {
  return `sha256=${createHmac("sha256", secret).update(message).digest("hex")}`;
}

const ids = new IdGenerator();

/** The body of an envelope with a new task id. */
function newBody(): { readonly id: string; readonly body: string } {
  const id = ids.next(Date.now());
  return { id, body: JSON.stringify({ status_code: 20000, tasks: [{ id, result: "done ü😀" }] }) };
}

interface Post {
  readonly body: string;
  readonly headers: readonly string[];
}

async function postback({ url }: ReceiverProcess, { body, headers }: Post): Promise<number> {
  const request = { method: "POST", target: "/postback", headers, body: Buffer.from(body) };
  return (await exchange(url, request)).status;
}

async function pingback(
  { url }: ReceiverProcess,
  target: string,
  headers: readonly string[],
): Promise<number> {
  return (await exchange(url, { target, headers })).status;
}

/** Posts a task, waits for its webhooks and returns its id. */
async function runTask(daemon: TestDaemon, urls: object): Promise<string> {
  const input = { text: "ü 😀 \u2028", number: 1.5, nested: ["</script>", '"'] };
  const posted = await daemon.post([{ input, tag: TAG, ...urls }]);
  await daemon.daemon.idle();
  return posted.tasks[0]?.id ?? assert.fail("no task");
}

interface ShownDelivery {
  readonly kind: string;
  readonly url: string;
  readonly attempts: readonly { readonly http_status: number | null }[];
}

async function deliveries(daemon: TestDaemon, id: string): Promise<readonly ShownDelivery[]> {
  const response = await daemon.call(`/v1/tasks/deliveries/${id}`);
  // The contract has this shape.
  return ((await response.json()) as { deliveries: readonly ShownDelivery[] }).deliveries;
}

/** The status of each receiver for the first attempt of a postback and of a pingback. Both are equal. */
async function statusesOf(
  daemon: TestDaemon,
  receivers: readonly ReceiverProcess[],
): Promise<readonly (number | null | undefined)[]> {
  const tasks = receivers.map(({ url }) => ({
    postback_url: `${url}/postback`,
    pingback_url: `${url}/pingback?id=$id`,
  }));
  const posted = await daemon.post(tasks);
  await daemon.daemon.idle();
  const all = await Promise.all(posted.tasks.map(({ id }) => deliveries(daemon, id)));
  return all.map((both) => {
    const [first, second, ...others] = both.map(({ attempts }) => attempts[0]?.http_status);
    assert.deepEqual([second, others], [first, []]);
    return first;
  });
}

const ROOT = dirname(dirname(import.meta.dirname));
const LANGUAGES = [TYPESCRIPT, PYTHON, GO, PHP];

for (const language of LANGUAGES) exerciseReceiver(language);

test("docs/guides/receive-webhooks.md links each receiver", () => {
  const text = readFileSync(join(ROOT, "docs", "guides", "receive-webhooks.md"), "utf8");

  for (const { file } of LANGUAGES) assert(text.includes(`[${file}](../../${file})`), file);
});
