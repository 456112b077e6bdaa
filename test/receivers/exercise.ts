import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test, type TestContext } from "node:test";

import { newWebhookSecret } from "../../src/domain/account/key.ts";
import { IdGenerator } from "../../src/domain/id.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../src/store/store.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { exchange } from "../helpers/raw-http.ts";
import { startPrefixProxy } from "./prefix-proxy.ts";
import { reasonToSkip, startReceiverProcess } from "./receiver-process.ts";
import type { Language, ReceiverProcess } from "./receiver-process.ts";

const BODY_BYTES_MAX = 8 * 1024 * 1024;
const SECRET = newWebhookSecret();
// Text that every step between a task and its receiver could spoil.
const TAG = "ü/& $id 😀%20'";
const QUERY = 'tag=$tag&x=%C3%A9 é"%2f+&y=%24id&empty=&';

/** Runs a receiver as a process of its own: with webhooks of a real daemon first, then with forged ones. */
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
        command,
        secrets,
        ...(publicUrl === undefined ? {} : { publicUrl }),
      });
    describeGenuine(start);
    describeRotation(start);
    describeHostile(start);
  });
}

type Start = (
  t: TestContext,
  secrets: readonly string[],
  publicUrl?: string,
) => Promise<ReceiverProcess>;

function describeGenuine(start: Start): void {
  test("takes in a postback and a pingback of a task, whatever stands in them", async (t) => {
    const daemon = await startTestDaemon(t);
    const receiver = await start(t, [daemon.account.secret]);
    const postbackUrl = `${receiver.url}/postback?${QUERY}`;
    const pingbackUrl = `${receiver.url}/pingback?id=$id&${QUERY}`;

    const id = await runTask(daemon, { postback_url: postbackUrl, pingback_url: pingbackUrl });

    assert.deepEqual(await outcomes(daemon, id), { postback: [200], pingback: [200] });
    const inbox = receiver.inbox();
    assert.deepEqual([...inbox.keys()], [`${id}.pingback`, `${id}.postback`]);
    const got = await daemon.call(`/v1/tasks/task_get/${id}`);
    assert.equal(inbox.get(`${id}.postback`)?.toString(), await got.text());
    const { pingback } = await deliveredUrls(daemon, id);
    assert.equal(inbox.get(`${id}.pingback`)?.toString(), pingback);
    await Promise.all([receiver.says(`new postback ${id}`), receiver.says(`new pingback ${id}`)]);
  });

  test("answers 200 to what comes again and does nothing", async (t) => {
    const daemon = await startTestDaemon(t);
    const receiver = await start(t, [daemon.account.secret]);
    const postbackUrl = `${receiver.url}/postback`;
    const pingbackUrl = `${receiver.url}/pingback?id=$id`;
    const id = await runTask(daemon, { postback_url: postbackUrl, pingback_url: pingbackUrl });
    const inbox = receiver.inbox();

    await daemon.call(`/v1/tasks/redeliver/${id}`, { method: "POST" });
    await daemon.daemon.idle();

    assert.deepEqual(await outcomes(daemon, id), { postback: [200, 200], pingback: [200, 200] });
    assert.deepEqual(receiver.inbox(), inbox);
    await Promise.all([
      receiver.says(`again postback ${id}`),
      receiver.says(`again pingback ${id}`),
    ]);
  });

  test("takes in one of many that come at the same time", async (t) => {
    const receiver = await start(t, [SECRET]);
    const { id, body } = newBody();
    const headers = [`X-Signature: ${sign(body)}`];

    const statuses = await Promise.all(
      Array.from({ length: 10 }, () => postback(receiver, { body, headers })),
    );

    assert.deepEqual(new Set(statuses), new Set([200]));
    assert.deepEqual([...receiver.inbox().keys()], [`${id}.postback`]);
    await receiver.says(`new postback ${id}`);
    await receiver.says(`again postback ${id}`, 9);
  });

  test("rebuilds the URL behind a proxy that takes a prefix away", async (t) => {
    const daemon = await startTestDaemon(t);
    const proxy = await startPrefixProxy(t, "/acme");
    const receiver = await start(t, [daemon.account.secret], `${proxy.url}/acme/`);
    proxy.passTo(receiver.url);
    const pingbackUrl = `${proxy.url}/acme/pingback?id=$id&${QUERY}`;

    const id = await runTask(daemon, { pingback_url: pingbackUrl });

    assert.deepEqual(await outcomes(daemon, id), { pingback: [200] });
    const { pingback } = await deliveredUrls(daemon, id);
    assert.equal(receiver.inbox().get(`${id}.pingback`)?.toString(), pingback);
  });

  test("takes a body up to its limit and none beyond", async (t) => {
    const receiver = await start(t, [SECRET]);
    const { id, body: short } = newBody();
    const full = short + " ".repeat(BODY_BYTES_MAX - Buffer.byteLength(short));
    const over = `${full} `;

    const tooMuch = postback(receiver, { body: over, headers: [`X-Signature: ${sign(over)}`] });
    // Some close the connection while the body is still being sent, and the answer is lost.
    assert.match(String(await tooMuch.catch(() => "reset")), /^(413|reset)$/);
    assert.deepEqual(receiver.inbox().size, 0);
    const headers = [`X-Signature: ${sign(full)}`];
    assert.equal(await postback(receiver, { body: full, headers }), 200);

    assert.deepEqual([...receiver.inbox().keys()], [`${id}.postback`]);
  });
}

function describeRotation(start: Start): void {
  test("goes through a rotation with the old secret, the new one or both", async (t) => {
    const daemon = await startTestDaemon(t);
    const { login, secret } = daemon.account;
    const next = newWebhookSecret();
    const receivers = await Promise.all([
      start(t, [secret]),
      start(t, [secret, next]),
      start(t, [next]),
    ]);

    assert.deepEqual(await statusesOf(daemon, receivers), [200, 200, 401]);
    await withStore(daemon, (store) => store.rotateSecret({ login, next }));
    assert.deepEqual(await statusesOf(daemon, receivers), [200, 200, 200]);
    await withStore(daemon, (store) => store.finishRotation({ login }));
    assert.deepEqual(await statusesOf(daemon, receivers), [401, 200, 200]);
  });
}

function describeHostile(start: Start): void {
  test("answers 401 to every postback that its secret did not sign", async (t) => {
    const receiver = await start(t, [SECRET]);
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
      [body, [`X-Signature: ${"é".repeat(64)}`]],
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
  });

  test("answers 401 to a pingback of another URL, whatever Host and proxies' headers say", async (t) => {
    const receiver = await start(t, [SECRET]);
    const { id } = newBody();
    const target = `/pingback?id=${id}&x=%C3%A9`;
    const other = `https://other.example${target}`;
    const signed = (url: string): string => `X-Signature: ${sign(url)}`;
    const forwarded = ["X-Forwarded-Host: other.example", "X-Forwarded-Proto: https"];

    assert.equal(await pingback(receiver, target, []), 401);
    assert.equal(await pingback(receiver, target, [signed(target)]), 401);
    assert.equal(await pingback(receiver, `${target}&y`, [signed(receiver.url + target)]), 401);
    const decoded = target.replace("%C3%A9", "%c3%a9");
    assert.equal(await pingback(receiver, decoded, [signed(receiver.url + target)]), 401);
    assert.equal(await pingback(receiver, target, [signed(other), ...forwarded]), 401);
    const named = { target, headers: ["Host: other.example", signed(other), ...forwarded] };
    assert.equal((await exchange(receiver.url, { ...named, host: false })).status, 401);
    // No receiver may take the address in the request line for its own.
    assert.notEqual(await pingback(receiver, other, [signed(other)]), 200);
    assert.equal(receiver.inbox().size, 0);
    assert.equal(await pingback(receiver, target, [signed(receiver.url + target)]), 200);
  });

  test("verifies the target as it stands on the request line, double slashes and all", async (t) => {
    const receiver = await start(t, [SECRET], "http://127.0.0.1/");
    for (const query of [
      "?id=$id",
      "?id=$id&a=1&a=2&",
      "?a%5B%5D=%7E&id=$id&+%2B",
      "?//..&id=$id",
    ]) {
      const target = `/pingback${query.replace("$id", newBody().id)}`;
      const headers = [`X-Signature: ${sign(`http://127.0.0.1${target}`)}`];
      assert.equal(await pingback(receiver, target, headers), 200, query);
    }
    const odd = [`X-Signature: ${sign("http://127.0.0.1//pingback")}`];
    assert.equal(await pingback(receiver, "//pingback", odd), 404);
  });

  test("makes no file for what is no task id, though it is signed", async (t) => {
    const receiver = await start(t, [SECRET], "http://127.0.0.1");
    for (const id of ["../../escaped-from-the-inbox-of-webhooks", "", "A".repeat(36)]) {
      const body = JSON.stringify({ tasks: [{ id }] });
      const headers = [`X-Signature: ${sign(body)}`];
      assert.equal(await postback(receiver, { body, headers }), 400, id);
      const target = `/pingback?id=${encodeURIComponent(id)}`;
      const signature = sign(`http://127.0.0.1${target}`);
      assert.equal(await pingback(receiver, target, [`X-Signature: ${signature}`]), 400, id);
    }
    // Who has seen a pingback can send its signed URL as the body of a postback.
    const body = "http://127.0.0.1/pingback?id=01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6";
    assert.equal(await postback(receiver, { body, headers: [`X-Signature: ${sign(body)}`] }), 400);
    assert.equal(receiver.inbox().size, 0);
  });

  test("answers 404 beside its two addresses", async (t) => {
    const receiver = await start(t, [SECRET]);
    const { body } = newBody();
    const headers = [`X-Signature: ${sign(body)}`];

    for (const target of ["/", "/postback/", "/other", "/pingback"]) {
      const request = { method: "POST", target, headers, body };
      assert.equal((await exchange(receiver.url, request)).status, 404, target);
    }
    assert.equal((await exchange(receiver.url, { target: "/postback" })).status, 404);
    assert.equal(receiver.inbox().size, 0);
  });

  test("takes nothing in without a secret", async (t) => {
    const { body } = newBody();
    const headers = [`X-Signature: ${sign(body, "")}`];
    let receiver: ReceiverProcess;
    try {
      receiver = await start(t, []);
    } catch (error) {
      assert.match(String(error), /WEBHOOK_SECRETS/);
      return;
    }
    // PHP has no start of its own at which it could refuse.
    assert.equal(await postback(receiver, { body, headers }), 500);
    assert.equal(receiver.inbox().size, 0);
  });
}

function sign(message: string, secret = SECRET): string {
  return `sha256=${createHmac("sha256", secret).update(message).digest("hex")}`;
}

const ids = new IdGenerator();

/** A body of the form of an envelope, with an id that no other has. */
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

/** Posts a task, lets it run and its webhooks be sent, and gives its id. */
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
  // The shape is the contract's; a test that reads a field that is not there fails by itself.
  return ((await response.json()) as { deliveries: readonly ShownDelivery[] }).deliveries;
}

/** What each webhook of a task was answered, attempt by attempt, by its kind. */
async function outcomes(daemon: TestDaemon, id: string): Promise<object> {
  const all = await deliveries(daemon, id);
  return Object.fromEntries(
    all.map(({ kind, attempts }) => [kind, attempts.map((each) => each.http_status)]),
  );
}

/** The URLs as they were requested, by their kind. */
async function deliveredUrls(
  daemon: TestDaemon,
  id: string,
): Promise<Readonly<Record<string, string>>> {
  const all = await deliveries(daemon, id);
  return Object.fromEntries(all.map(({ kind, url }) => [kind, url]));
}

/** What each receiver answers to the first attempt of a postback and of a pingback, which is the same. */
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

/** Does to the daemon's file what a command of the operator does. */
async function withStore(
  { file }: TestDaemon,
  act: (store: Store) => Promise<unknown>,
): Promise<void> {
  const store = await openSqliteStore({ file, writer: "inline", backlogMax: 1 });
  try {
    await act(store);
  } finally {
    await store.close();
  }
}
