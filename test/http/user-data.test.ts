import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { newWebhookSecret } from "../../src/domain/account/key.ts";
import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import { createTestAccount, openBeside, startTestDaemon } from "../helpers/daemon.ts";
import type { TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { headerOf } from "../helpers/raw-http.ts";
import { fieldsOf, keyDelete, makeKey, USER_DATA, userDataOf } from "./account.ts";
import type { ShownKey, UserData } from "./account.ts";
import { ask, bearer, TASKS_READY } from "./answer.ts";
import { NOW, startAt9 } from "./at-nine.ts";

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

test("user_data shows the default limits", async (t) => {
  const { daemon } = await startAt9(t);
  const { limits, retention_days } = await userDataOf(daemon);

  const bytes = { body_bytes: 1_048_576, bytes: 10 * 1024 ** 3, result_bytes: limits.result_bytes };
  const perMinute = { requests_per_minute: 0, tasks_per_minute: 0 };
  const tasks = { tasks_per_post: 100, queue_days: 30, open_tasks: 1_000_000 };
  assert.deepEqual([retention_days, limits], [30, { ...bytes, ...perMinute, ...tasks }]);
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

test("the use of a key is shown immediately and is stored a minute later", async (t) => {
  const { daemon, clock } = await startAt9(t);
  for (let i = 0; i < 50; i++) {
    clock.advance(100);
    assert.equal(
      (await userDataOf(daemon)).keys[0]?.last_used_at,
      new Date(clock.now()).toISOString(),
    );
  }
  assert.equal(await lastUseInFile(t, daemon), null);
  const lastUse = clock.now();

  clock.advance(MINUTE_MS);
  // The store does what it is asked in order: when this is on disk, so is what came before.
  const beside = { url: daemon.url, account: await createTestAccount(daemon.file, "beside") };
  await makeKey(beside);

  assert.equal(await lastUseInFile(t, daemon), lastUse);
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
