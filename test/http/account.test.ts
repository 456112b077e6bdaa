import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";

import { isWellFormedKey, newWebhookSecret } from "../../src/domain/account/key.ts";
import { HOUR_MS } from "../../src/domain/clock/duration.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import {
  type TestDaemon,
  createTestAccount,
  openBeside,
  startTestDaemon,
} from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { headerOf, openRaw } from "../helpers/raw-http.ts";
import {
  NOW,
  type ShownKey,
  type ShownNewKey,
  USER_DATA,
  type UserData,
  fieldsOf,
  keyDelete,
  keyPost,
  makeKey,
  startAt9,
  userDataOf,
} from "./account.ts";
import { TASKS_READY, ask, askOn, bearer, unlessBusy } from "./answer.ts";

const LIMITS = `
retention_days = 7
[limits]
body = "64KiB"
tasks_per_post = 7
queue_days = 9
result = "2MiB"
requests_per_minute = 600
[limits.account]
bytes = "3MiB"
open_tasks = 70
tasks_per_minute = 80
`;

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** When the file has it that the account's first key was last used. */
async function lastUseInFile(t: TestContext, { file, account }: TestDaemon) {
  const beside = await openBeside(t, { file });
  const [first] = (await beside.listKeys(account.login)) ?? [];
  await beside.close();
  return first?.lastUsedAt;
}

test("user_data shows every field of the contract, and nothing else", async (t) => {
  const { daemon } = await startAt9(t, LIMITS);
  const answer = await ask(daemon.url, { target: USER_DATA, headers: [bearer(daemon)] });
  const shown = fieldsOf<UserData>(answer);
  const [key] = shown.keys;

  assert.equal(headerOf(answer.response, "cache-control"), "no-store");
  assert.deepEqual(shown, {
    ...{ status_code: 20000, status_message: "Ok." },
    login: daemon.account.login,
    webhook_secret: daemon.account.secret,
    webhook_secret_next: null,
    keys: [
      {
        key_id: key?.key_id,
        prefix: "pbd_live_",
        last_four: daemon.account.key.slice(-4),
        label: null,
        created_at: key?.created_at,
        last_used_at: "2030-01-31T09:00:00.000Z",
        revoked_at: null,
      },
    ],
    key_limit: 20,
    limits: {
      body_bytes: 65_536,
      tasks_per_post: 7,
      result_bytes: 2_097_152,
      queue_days: 9,
      bytes: 3_145_728,
      open_tasks: 70,
      requests_per_minute: 600,
      tasks_per_minute: 80,
    },
    usage: { bytes: 0, open_tasks: 0 },
    retention_days: 7,
    tasks: { queued: 0, running: 0, completed: 0, failed: 0, cancelled: 0 },
  });
  assert.match(key?.key_id ?? "", /^key_[0-9a-f]{32}$/);
  assert.match(key?.created_at ?? "", TIME);
});

test("user_data shows an account its own keys, secret and tasks only", async (t) => {
  const { daemon } = await startAt9(t);
  const other = { url: daemon.url, account: await createTestAccount(daemon.file, "other") };
  await makeKey(other, "theirs");
  await daemon.post([{}, {}]);
  await daemon.daemon.idle();

  const mine = await userDataOf(daemon);
  const theirs = await userDataOf(other);

  assert.deepEqual([mine.login, theirs.login], ["tester", "other"]);
  assert.deepEqual([mine.keys.length, theirs.keys.length], [1, 2]);
  assert.deepEqual([mine.tasks["completed"], theirs.tasks["completed"]], [2, 0]);
  assert.notEqual(mine.webhook_secret, theirs.webhook_secret);
});

test("a rotation by another process is shown with its next secret until it ends", async (t) => {
  const { daemon } = await startAt9(t);
  const beside = await openBeside(t, daemon);
  const { login, secret } = daemon.account;
  const next = newWebhookSecret();
  const secrets = async () => {
    const { webhook_secret, webhook_secret_next } = await userDataOf(daemon);
    return [webhook_secret, webhook_secret_next];
  };

  assert.deepEqual(await secrets(), [secret, null]);
  await beside.rotateSecret({ login, next });
  assert.deepEqual(await secrets(), [secret, next]);
  await beside.finishRotation({ login });
  assert.deepEqual(await secrets(), [next, null]);
});

test("the use of a key is stored by a stop and shown by the next daemon", async (t) => {
  const { daemon, clock } = await startAt9(t);
  clock.advance(1234);
  await ask(daemon.url, { target: TASKS_READY, headers: [bearer(daemon)] });
  await daemon.daemon.stop();
  assert.equal(await lastUseInFile(t, daemon), NOW + 1234);

  const { folder, account } = daemon;
  const again = await startTestDaemon(t, { clock: createFakeClock({ now: NOW }), folder, account });
  const { keys } = await userDataOf(again);
  assert.equal(keys[0]?.last_used_at, new Date(NOW + 1234).toISOString(), "its clock is behind");
});

test("only admitted requests count as the use of a key", async (t) => {
  const { daemon, clock } = await startAt9(t);
  const { key, key_id } = await makeKey(daemon);
  const useOf = async () => {
    const { keys } = await userDataOf(daemon);
    return keys.find((each) => each.key_id === key_id)?.last_used_at;
  };
  const basic = (login: string) => `Basic ${Buffer.from(`${login}:${key}`).toString("base64")}`;
  const askWith = (authorization: string) =>
    ask(daemon.url, { target: TASKS_READY, headers: [`Authorization: ${authorization}`] });
  clock.advance(1000);

  assert.equal((await askWith(basic("someone"))).code, 40100);
  assert.equal(await useOf(), null);
  assert.equal((await askWith(basic(daemon.account.login))).code, 20000);
  assert.equal(await useOf(), "2030-01-31T09:00:01.000Z");
  clock.advance(1000);
  await ask(daemon.url, keyDelete(daemon, key_id));
  assert.equal((await askWith(`Bearer ${key}`)).code, 40101);
  assert.equal(await useOf(), "2030-01-31T09:00:01.000Z");
});

test("a revocation shows a use that is not stored yet", async (t) => {
  const { daemon, clock } = await startAt9(t);
  const { key, key_id } = await makeKey(daemon);
  clock.advance(5000);
  await ask(daemon.url, { target: TASKS_READY, headers: [`Authorization: Bearer ${key}`] });
  clock.advance(5000);
  const answer = await ask(daemon.url, keyDelete(daemon, key_id));

  const revoked = fieldsOf<{ key: ShownKey }>(answer).key;
  assert.equal(revoked.last_used_at, "2030-01-31T09:00:05.000Z");
  assert.equal(revoked.revoked_at, "2030-01-31T09:00:10.000Z");
});

test("a new key is shown whole once and works immediately", async (t) => {
  const daemon = await startTestDaemon(t, { clock: createFakeClock({ now: NOW }) });
  const label = `"'\\<b>&\u2028 ключ ${"𝒻".repeat(80)}`;
  const answer = await ask(daemon.url, keyPost(daemon, JSON.stringify({ label })));
  const body = fieldsOf<{ key: ShownNewKey }>(answer);
  const { key, key_id, last_four } = body.key;

  assert.equal(headerOf(answer.response, "cache-control"), "no-store");
  assert.deepEqual(body, {
    ...{ status_code: 20000, status_message: "Ok." },
    key: {
      ...{ key_id, key, prefix: "pbd_live_", last_four, label },
      created_at: "2030-01-31T09:00:00.000Z",
    },
  });
  assert(isWellFormedKey(key), key);
  assert.match(key_id, /^key_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$/);
  assert.equal(last_four, key.slice(-4));
  const mine = { url: daemon.url, account: { ...daemon.account, key } };
  const { keys } = await userDataOf(mine);
  assert.deepEqual([keys[1]?.key_id, keys[1]?.label], [key_id, label]);
  const both = JSON.stringify(await userDataOf(daemon)) + daemon.logLines.join("");
  assert.equal(both.includes(key.slice("pbd_live_".length, -4)), false);
});

clusterTest(
  "of fifty concurrent requests for a key nineteen succeed: an account has twenty active keys",
  async (t) => {
    const daemon = await startTestDaemon(t);
    const asked = Array.from({ length: 50 }, () =>
      unlessBusy(() => ask(daemon.url, keyPost(daemon, "{}"))),
    );
    const answers = await Promise.all(asked);

    const made = answers.filter(({ code }) => code === 20000);
    const refused = answers.filter(({ code }) => code === 40910);
    assert.deepEqual([made.length, refused.length], [19, 31]);
    const { keys } = await userDataOf(daemon);
    assert.equal(keys.filter((key) => key.revoked_at === null).length, 20);
    const whole = made.map((answer) => fieldsOf<{ key: ShownNewKey }>(answer).key.key);
    assert.equal(new Set(whole).size, 19);
  },
);

test("an account makes a hundred keys an hour, and revoked keys are erased after the retention", async (t) => {
  const { clock, daemon } = await startAt9(t, "retention_days = 2\n");
  const other = await createTestAccount(daemon.file, "other");
  const ids = [];
  for (let i = 0; i < 100; i++) {
    const { key_id } = await makeKey(daemon);
    ids.push(key_id);
    await ask(daemon.url, keyDelete(daemon, key_id));
  }

  const late = await ask(daemon.url, keyPost(daemon));
  assert.equal(late.code, 42900);
  assert.equal(headerOf(late.response, "retry-after"), "3600");
  await makeKey({ url: daemon.url, account: other });
  clock.advance(HOUR_MS);
  const last = await makeKey(daemon);
  await ask(daemon.url, keyDelete(daemon, last.key_id));

  clock.jump(2 * 24 * HOUR_MS - HOUR_MS + 1);
  await daemon.daemon.idle();
  const beside = await openBeside(t, daemon);
  const keys = (await beside.listKeys(daemon.account.login)) ?? [];
  assert.deepEqual(
    keys.map(({ revokedAt }) => revokedAt),
    [null, NOW + HOUR_MS],
  );
});

clusterTest(
  "a revoked key is refused from the next request on, on the same connection too",
  async (t) => {
    const daemon = await startTestDaemon(t);
    const { key, key_id } = await makeKey(daemon);
    const headers = [`Authorization: Bearer ${key}`];
    const connection = await openRaw(t, daemon.url);
    assert.equal((await askOn(connection, { target: TASKS_READY, headers })).code, 20000);

    assert.equal((await askOn(connection, keyDelete(daemon, key_id))).code, 20000);

    const refused = await askOn(connection, { target: TASKS_READY, headers });
    assert.equal(refused.code, 40101);
    assert.equal(refused.response.status, 401);
    assert.equal((await askOn(connection, { target: USER_DATA, headers })).code, 40101);
    assert.equal((await askOn(connection, keyDelete(daemon, key_id))).code, 20000);
  },
);

clusterTest("the last key may revoke itself", async (t) => {
  const daemon = await startTestDaemon(t);
  const [mine] = (await userDataOf(daemon)).keys;
  const connection = await openRaw(t, daemon.url);
  const answer = await askOn(connection, keyDelete(daemon, mine?.key_id ?? ""));

  assert.equal(answer.code, 20000);
  assert.notEqual(fieldsOf<{ key: ShownKey }>(answer).key.revoked_at, null);
  assert.equal((await askOn(connection, keyDelete(daemon, mine?.key_id ?? ""))).code, 40101);
});

test("no key, secret or label of a key is logged", async (t) => {
  const daemon = await startTestDaemon(t);
  const made = await makeKey(daemon, "LABEL-PRIVATE");
  const mine = { url: daemon.url, account: { ...daemon.account, key: made.key } };
  await ask(daemon.url, keyPost(mine, '{"label":1}'));
  await ask(daemon.url, keyDelete(mine, made.key));
  await ask(daemon.url, keyDelete(daemon, made.key_id));
  await ask(daemon.url, keyPost(mine));
  await daemon.daemon.stop();

  const log = daemon.logLines.join("");
  for (const secret of [made.key, daemon.account.key, daemon.account.secret, "LABEL-PRIVATE"]) {
    assert.equal(log.includes(secret.slice(-34)), false);
  }
});
