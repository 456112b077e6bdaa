import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { startReceiver, type ReceivedRequest } from "../helpers/receiver.ts";
import { admin } from "./authentication.ts";
import { bearer, Client, isSignedBy, only, SECRET, standardSigners, TIME } from "./client.ts";
import { PART, type Subject } from "./subject.ts";
import { TOML, type Parts } from "./tasks.ts";

/** What §3's envelope and §8's `admin secret` mean to a receiver. */
export function exerciseWebhooks(subject: Subject): void {
  test("contract §3, webhooks", PART, async (t) => {
    const served = await subject.serve(t, { toml: TOML });
    const client = new Client(served.url, bearer(served.account.key));
    await postback(t, { served, client });
    await pingback(t, { served, client });
    await record(t, { client });
    await verify(t, { served, client });
    await rotation(t, { served, client });
  });
}

async function postback(t: TestContext, { served, client }: Parts): Promise<void> {
  const { secret } = served.account;

  await t.test("postback: its body is byte for byte the body of task_get", async (t) => {
    const receiver = await startReceiver(t);
    const input = `{"n":12345678901234567890.10,"s":"ü \\u0000 \\ud83d\\ude00"}`;
    for (const type of ["echo", "fail"]) {
      const postback_url = receiver.url(`/${type} ü`);
      const task = { type, tag: "ü", postback_url, pingback_url: receiver.url("/$id") };
      const text = JSON.stringify([task]).replace("}]", `,"input":${input}}]`);
      const { id } = only(await client.post(text));
      const received = postbackOf(await receiver.waitFor(type === "echo" ? 2 : 4), id);

      assert.deepEqual(received.rawBody, (await client.get(id, "?collect=false")).bytes);
      // Collected and asked again it is still the same.
      await client.get(id);
      assert.deepEqual(received.rawBody, (await client.get(id)).bytes);
    }
  });

  await t.test("postback: POST of JSON with X-Signature over the raw body", async (t) => {
    const receiver = await startReceiver(t);
    const { id } = only(await client.run({ type: "echo", postback_url: receiver.url("/p?a=%20") }));
    const request = await receiver.next();
    const { headers, rawBody } = request;

    assert.deepEqual([request.method, request.url], ["POST", "/p?a=%20"]);
    assert.match(headers["content-type"] ?? "", /^application\/json\b/);
    assert.equal(headers["user-agent"], "postbackd-webhooks/1");
    assert.ok(isSignedBy(secret, rawBody, headers["x-signature"]));
    assert.equal(headers["x-signature-next"], undefined);
    assert.equal(headers["x-attempt"], "1");
    assert.equal(headers["webhook-id"], `${id}-postback`);
    assert.match(headers["webhook-timestamp"] ?? "", /^\d{10}$/);
    assert.deepEqual(standardSigners([secret], request), [0]);
    assert.equal(JSON.parse(String(rawBody)).tasks[0].id, id);
  });
}

async function pingback(t: TestContext, { served, client }: Parts): Promise<void> {
  const { secret } = served.account;

  await t.test("pingback: GET of the URL with $id and $tag, signed as requested", async (t) => {
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

  await t.test("pingback: a missing tag is the empty string", async (t) => {
    const receiver = await startReceiver(t);
    await client.run({ type: "echo", pingback_url: receiver.url("/x?tag=$tag&end") });
    assert.equal((await receiver.next()).url, "/x?tag=&end");
  });
}

async function record(t: TestContext, { client }: Pick<Parts, "client">): Promise<void> {
  await t.test(
    "GET /v1/tasks/deliveries/{id}: each attempt with what the contract lists",
    async (t) => {
      const receiver = await startReceiver(t, {
        reply: { kind: "status", status: 503, body: "busy" },
      });
      const { id } = only(await client.run({ type: "echo", postback_url: receiver.url("/p") }));
      await receiver.next();
      const delivery = await recorded(client, id, (each) => each.attempts.length === 2);

      const { attempts, next_attempt_at: next, ...facts } = delivery;
      const url = receiver.url("/p");
      const delivery_id = `${id}-postback`;
      assert.deepEqual(facts, { delivery_id, kind: "postback", url, state: "scheduled" });
      const [first, second] = attempts;
      const { due_at, started_at, ended_at, phases, ...rest } = first ?? {};
      for (const time of [due_at, started_at, ended_at, next]) assert.match(String(time), TIME);
      assert.deepEqual(rest, {
        ...{ number: 1, outcome: "failed", http_status: 503, address: "127.0.0.1" },
        ...{ error: first?.["error"], response_excerpt: "busy", refusal: null },
      });
      assert.deepEqual(Object.keys(phases ?? {}), [
        "dns_ms",
        "connect_ms",
        "tls_ms",
        "first_byte_ms",
      ]);
      assert.deepEqual([second?.["due_at"], second?.["started_at"]], [next, null]);
      assert.equal(
        Date.parse(String(next)) - Date.parse(String(ended_at)),
        60_000,
        "1 minute after",
      );
    },
  );

  await t.test(
    "POST /v1/tasks/redeliver/{id}: a fresh series for what was delivered",
    async (t) => {
      const receiver = await startReceiver(t);
      const { id } = only(await client.run({ type: "echo", postback_url: receiver.url("/p") }));
      await receiver.next();
      await recorded(client, id, ({ state }) => state === "delivered");

      const path = `/v1/tasks/redeliver/${id}`;
      const answer = await client.send(path, { body: { kind: "postback" } });
      const again = await receiver.next();

      assert.equal(answer.body.status_code, 20000);
      assert.equal(again.headers["webhook-id"], `${id}-postback`);
      assert.equal(again.headers["x-attempt"], "1");
      const wrong = await client.send(path, { body: { kind: "pingback" } });
      assert.deepEqual([wrong.status, wrong.body.status_code], [400, 40501]);
    },
  );
}

interface RecordedDelivery {
  readonly state: string;
  readonly next_attempt_at: unknown;
  readonly attempts: readonly Readonly<Record<string, unknown>>[];
}

// The receiver has its answer before the daemon has recorded it.
async function recorded(
  client: Client,
  id: string,
  isThere: (delivery: RecordedDelivery) => boolean,
): Promise<RecordedDelivery> {
  for (;;) {
    const { body } = await client.send(`/v1/tasks/deliveries/${id}`);
    const { deliveries } = body as unknown as { deliveries: readonly RecordedDelivery[] };
    const found = deliveries.find(isThere);
    if (found !== undefined) return found;
  }
}

async function verify(t: TestContext, { served, client }: Parts): Promise<void> {
  const { secret } = served.account;

  await t.test("verify: knows the signature of a pingback that was received", async (t) => {
    const receiver = await startReceiver(t);
    await client.run({ type: "echo", pingback_url: receiver.url("/$id") });
    const { url, headers } = await receiver.next();
    const signature = headers["x-signature"] ?? "";
    const words = ["--secret", secret, "--url", receiver.url(url), "--signature"];
    const valid = await served.command(["verify", ...words, signature, "--json"]);
    const wrong = await served.command(["verify", ...words, signature.replace("sha256=", "")]);

    assert.deepEqual([valid.code, JSON.parse(valid.stdout).valid], [0, true]);
    assert.deepEqual([wrong.code, wrong.stderr], [1, ""]);
    assert.match(wrong.stdout, /sha256=/);
  });
}

async function rotation(t: TestContext, { served, client }: Parts): Promise<void> {
  const { login, secret } = served.account;
  const send = async (t: TestContext): Promise<ReceivedRequest> => {
    const receiver = await startReceiver(t);
    await client.run({ type: "echo", postback_url: receiver.url() });
    return receiver.next();
  };
  let next = "";

  await t.test("admin secret rotate: both secrets sign until finish", async (t) => {
    const rotated = await admin(served, ["secret", "rotate", login]);
    next = rotated.webhook_secret_next ?? "";
    const { body } = await client.send("/v1/appendix/user_data");
    const request = await send(t);
    const { headers, rawBody } = request;

    assert.match(next, SECRET);
    assert.notEqual(next, secret);
    assert.deepEqual([body.webhook_secret, body.webhook_secret_next], [secret, next]);
    assert.ok(isSignedBy(secret, rawBody, headers["x-signature"]));
    assert.ok(isSignedBy(next, rawBody, headers["x-signature-next"]));
    assert.deepEqual(standardSigners([secret, next], request), [0, 1]);
    assert.equal((await served.cli(["admin", "secret", "rotate", login])).code, 1);
  });

  await t.test("admin secret show: both secrets while it rotates", async () => {
    const document = await admin(served, ["secret", "show", login]);
    const { webhook_secret, webhook_secret_next } = document;
    assert.deepEqual([document.login, webhook_secret, webhook_secret_next], [login, secret, next]);
  });

  await t.test("admin secret finish: only the new one signs", async (t) => {
    await admin(served, ["secret", "finish", login]);
    const { body } = await client.send("/v1/appendix/user_data");
    const request = await send(t);
    const { headers, rawBody } = request;

    assert.deepEqual([body.webhook_secret, body.webhook_secret_next], [next, null]);
    assert.ok(isSignedBy(next, rawBody, headers["x-signature"]));
    assert.equal(headers["x-signature-next"], undefined);
    assert.deepEqual(standardSigners([secret, next], request), [1]);
    assert.equal((await served.cli(["admin", "secret", "finish", login])).code, 1);
  });
}

function postbackOf(requests: readonly ReceivedRequest[], id: string): ReceivedRequest {
  const found = requests.find(({ headers }) => headers["webhook-id"] === `${id}-postback`);
  assert.ok(found !== undefined);
  return found;
}
