import assert from "node:assert/strict";
import { test } from "node:test";

import { ACTIVE_KEYS_MAX } from "../../src/domain/account/key.ts";
import { verifyPostback } from "../../src/verify.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { startDev } from "./dev-client.ts";

test("a login that cannot name an inbox is refused", async (t) => {
  const { call } = await startDev(t);

  for (const login of ["a b", "..", "", "x".repeat(65)])
    assert.equal((await call("POST /dev/accounts", { login })).code, 40501, login);
});

test("a login with @ and + has an inbox that receives its webhooks", async (t) => {
  const { ask, look, ready } = await startDev(t);
  const login = "ann+test@example.com";
  const { key, inbox_url: url = "" } = await ask("POST /dev/accounts", { login });

  const response = await fetch(`${ready.url}/v1/tasks/task_post`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ postback_url: url }),
  });
  assert.equal(response.status, 200);

  for (const box of [login, encodeURIComponent(login)]) {
    const [message, ...others] = await look(`${box}?count=1&wait=10`);
    assert.deepEqual([message?.signature.verdict, others], ["valid", []]);
  }
});

test("a sample to any inbox of the daemon is valid, with the secret of any account", async (t) => {
  const { ask, look, ready } = await startDev(t);
  await ask("POST /dev/accounts", { login: "alice" });

  const url = `${ready.url}/inbox/shop`;
  for (const login of [ready.account, "alice"]) {
    await ask("POST /dev/webhooks", { url, kind: "postback", login });
    await ask("POST /dev/webhooks", { url: `${url}?task=$id`, kind: "pingback", login });
  }

  const verdicts = (await look("shop")).map(({ signature }) => signature.verdict);
  assert.deepEqual(verdicts, ["valid", "valid", "valid", "valid"]);
});

test("each request creates an account, or another key of a named account up to the limit", async (t) => {
  const { ask, call, ready } = await startDev(t);

  const [one, two] = [await ask("POST /dev/accounts"), await ask("POST /dev/accounts", {})];
  const named = await ask("POST /dev/accounts", { login: "alice" });
  const again = await ask("POST /dev/accounts", { login: "alice" });

  assert.notEqual(one.login, two.login);
  assert.equal(named.inbox_url, `${ready.url}/inbox/alice`);
  assert.equal(again.webhook_secret, named.webhook_secret);
  for (const { key } of [one, two, named, again]) {
    const headers = { authorization: `Bearer ${key}` };
    const response = await fetch(`${ready.url}/v1/appendix/user_data`, { headers });
    assert.equal(response.status, 200);
  }
  for (let keys = 2; keys < ACTIVE_KEYS_MAX; keys++)
    await ask("POST /dev/accounts", { login: "alice" });
  assert.equal((await call("POST /dev/accounts", { login: "alice" })).code, 40910);
});

test("a sample with a URL that no task may have, or an unknown login, is refused", async (t) => {
  const { call, ready } = await startDev(t);
  const login = ready.account;

  for (const [body, pointer] of [
    [{ url: "ftp://example.com", kind: "postback", login }, "/url"],
    [{ url: "http://169.254.169.254/", kind: "postback", login }, "/url"],
    [{ url: "http://127.0.0.1:9/", kind: "postback", login: "nobody" }, "/login"],
    [{ url: "http://127.0.0.1:9/", kind: "callback", login }, "/kind"],
  ] as const) {
    const { code, body: shown } = await call("POST /dev/webhooks", body);
    assert.deepEqual([code, shown.errors?.[0]?.pointer], [40501, pointer]);
  }
});

test("a sample is sent immediately, signed by the account's secret, and returned as an attempt", async (t) => {
  const receiver = await startReceiver(t);
  const { ask, ready } = await startDev(t);
  await ask("PUT /dev/faults", { duplicate: 1, drop_answer: 1 });

  const login = ready.account;
  const postback = { url: receiver.url("/done"), kind: "postback", login };
  const sent = await ask("POST /dev/webhooks", postback);
  assert.deepEqual([sent.attempt?.outcome, sent.attempt?.http_status], ["delivered", 204]);
  const [request, ...others] = receiver.requests;
  assert.ok(request !== undefined && others.length === 0);
  const signature = request.headers["x-signature"];
  assert.ok(await verifyPostback(request.rawBody, signature, ready.webhook_secret));
  receiver.answer({ kind: "status", status: 503 });
  const pingback = { url: receiver.url("/$id?t=$tag"), kind: "pingback", login };
  const failed = await ask("POST /dev/webhooks", pingback);
  assert.deepEqual([failed.attempt?.outcome, failed.attempt?.http_status], ["failed", 503]);
  assert.equal(receiver.requests.at(-1)?.url, `/${failed.task_id}?t=sample`);
});
