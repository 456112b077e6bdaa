import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { startReceiver, type ReceivedRequest } from "../helpers/receiver.ts";
import { admin } from "./account.ts";
import { bearer, Client, isSignedBy, only, SECRET, standardSigners } from "./client.ts";
import { PART, TOML, type Subject } from "./subject.ts";
import type { Parts } from "./tasks.ts";

/** The envelope of http-api.md and `admin secret`, as a receiver sees them. */
export function exerciseWebhooks(subject: Subject): void {
  test("webhooks, as in webhooks.md", PART, async (t) => {
    const served = await subject.serve(t, { toml: TOML });
    const client = new Client(served.url, bearer(served.account.key));
    await postback(t, { served, client });
    await pingback(t, { served, client });
    await record(t, client);
    await rotation(t, { served, client });
  });
}

async function postback(t: TestContext, { served, client }: Parts): Promise<void> {
  const { secret } = served.account;

  await t.test("a postback has the body of task_get to the byte, and its signatures", async (t) => {
    const receiver = await startReceiver(t);
    const input = `{"n":12345678901234567890.10,"s":"ü \\u0000 \\ud83d\\ude00"}`;
    for (const type of ["echo", "fail"]) {
      const text = JSON.stringify([{ type, tag: "ü", postback_url: receiver.url(`/${type} ü`) }]);
      const { id } = only(await client.post(text.replace("}]", `,"input":${input}}]`)));
      const request = await receiver.next();
      const { headers, rawBody } = request;

      assert.deepEqual([request.method, request.url], ["POST", `/${type}%20%C3%BC`]);
      assert.deepEqual(rawBody, (await client.get(id, "?collect=false")).bytes);
      await client.get(id);
      assert.deepEqual(rawBody, (await client.get(id)).bytes, "also when it is collected");
      assert.match(headers["content-type"] ?? "", /^application\/json\b/);
      assert.equal(headers["user-agent"], "postbackd-webhooks/1");
      assert.ok(isSignedBy(secret, rawBody, headers["x-signature"]));
      assert.deepEqual([headers["x-signature-next"], headers["x-attempt"]], [undefined, "1"]);
      assert.equal(headers["webhook-id"], `${id}-postback`);
      assert.match(headers["webhook-timestamp"] ?? "", /^\d{10}$/);
      assert.deepEqual(standardSigners([secret], request), [0]);
    }
  });

  await t.test("refused and cancelled tasks send nothing", async (t) => {
    const receiver = await startReceiver(t);
    const urls = { postback_url: receiver.url("/never"), pingback_url: "http://10.0.0.1/" };
    const refused = only(await client.post({ type: "echo", ...urls }));
    const start_at = new Date(Date.now() + 86_400_000).toISOString();
    const task = { type: "echo", postback_url: receiver.url("/never"), start_at };
    const cancelled = only(await client.post(task));
    await client.send(`/v1/tasks/task_cancel/${cancelled.id}`, { method: "POST" });
    // Its webhook is sent after theirs would be.
    await client.run({ type: "echo", postback_url: receiver.url("/later") });

    assert.deepEqual([refused.state, refused.status_code], ["failed", 40501]);
    assert.equal((await receiver.next()).url, "/later");
  });
}

async function pingback(t: TestContext, { served, client }: Parts): Promise<void> {
  const { secret } = served.account;

  await t.test("a pingback requests its URL with $id and $tag, and signs that URL", async (t) => {
    const receiver = await startReceiver(t);
    const pingback_url = receiver.url("/$id/$tag?tag=$tag&x=%24id#gone");
    const task = { type: "echo", tag: "a/ü !'()*$id", pingback_url };
    const { id } = only(await client.run(task));
    const request = await receiver.next();
    const { headers } = request;

    const tag = "a%2F%C3%BC%20%21%27%28%29%2A%24id";
    assert.deepEqual([request.method, request.url], ["GET", `/${id}/${tag}?tag=${tag}&x=%24id`]);
    assert.equal(request.rawBody.length, 0);
    assert.equal(headers["user-agent"], "postbackd-webhooks/1");
    assert.ok(isSignedBy(secret, receiver.url(request.url), headers["x-signature"]));
    assert.equal(headers["webhook-id"], `${id}-pingback`);
    assert.deepEqual(standardSigners([secret], request), [0]);
  });
}

async function record(t: TestContext, client: Client): Promise<void> {
  await t.test("a failed attempt is recorded, and is sent again by redeliver", async (t) => {
    const receiver = await startReceiver(t);
    receiver.answerNext({ kind: "status", status: 503, body: "busy" });
    const { id } = only(await client.run({ type: "echo", postback_url: receiver.url("/p") }));
    await receiver.next();
    const { attempts, next_attempt_at: next, ...facts } = await recorded(client, id, 2);

    const url = receiver.url("/p");
    const delivery_id = `${id}-postback`;
    assert.deepEqual(facts, { delivery_id, kind: "postback", url, state: "scheduled" });
    const [first, second] = attempts;
    const { due_at: _due, started_at: _started, ended_at, phases, ...rest } = first ?? {};
    assert.deepEqual(rest, {
      ...{ number: 1, outcome: "failed", http_status: 503, address: "127.0.0.1" },
      ...{ error: first?.["error"], response_excerpt: "busy", refusal: null },
    });
    const names = ["dns_ms", "connect_ms", "tls_ms", "first_byte_ms"];
    assert.deepEqual(Object.keys(phases ?? {}), names);
    assert.deepEqual([second?.["due_at"], second?.["started_at"]], [next, null]);
    assert.equal(Date.parse(String(next)) - Date.parse(String(ended_at)), 60_000);

    const path = `/v1/tasks/redeliver/${id}`;
    const { body } = await client.send(path, { body: { kind: "postback" } });
    assert.equal(body.status_code, 20000);
    assert.equal((await receiver.next()).headers["x-attempt"], "2");
  });
}

interface RecordedDelivery {
  readonly state: string;
  readonly next_attempt_at: unknown;
  readonly attempts: readonly Readonly<Record<string, unknown>>[];
}

/** The one delivery of a task, once it has so many attempts: the daemon records one after the receiver's response. */
async function recorded(client: Client, id: string, attempts: number): Promise<RecordedDelivery> {
  for (;;) {
    const { body } = await client.send(`/v1/tasks/deliveries/${id}`);
    const [found] = (body as unknown as { deliveries: readonly RecordedDelivery[] }).deliveries;
    if (found?.attempts.length === attempts) return found;
  }
}

async function rotation(t: TestContext, { served, client }: Parts): Promise<void> {
  const { login, secret } = served.account;
  const send = async (t: TestContext): Promise<ReceivedRequest> => {
    const receiver = await startReceiver(t);
    await client.run({ type: "echo", postback_url: receiver.url() });
    return receiver.next();
  };

  await t.test("both secrets sign while a rotation lasts, then the new one alone", async (t) => {
    const { webhook_secret_next } = await admin(served, ["secret", "rotate", login]);
    const next = webhook_secret_next ?? "";
    assert.match(next, SECRET);
    const shown = await admin(served, ["secret", "show", login]);
    assert.deepEqual([shown.webhook_secret, shown.webhook_secret_next], [secret, next]);
    const both = await send(t);
    assert.ok(isSignedBy(secret, both.rawBody, both.headers["x-signature"]));
    assert.ok(isSignedBy(next, both.rawBody, both.headers["x-signature-next"]));
    assert.deepEqual(standardSigners([secret, next], both), [0, 1]);

    await admin(served, ["secret", "finish", login]);
    const { body } = await client.send("/v1/appendix/user_data");
    assert.deepEqual([body.webhook_secret, body.webhook_secret_next], [next, null]);
    const after = await send(t);
    assert.ok(isSignedBy(next, after.rawBody, after.headers["x-signature"]));
    assert.equal(after.headers["x-signature-next"], undefined);
    assert.deepEqual(standardSigners([secret, next], after), [1]);
  });
}
